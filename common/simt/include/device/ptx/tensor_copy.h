// The CPU simulator's cp.async.bulk.tensor: a copy takes effect at the wait for its phase, and not
// before.
#ifndef CUFLASH_SIMT_DEVICE_PTX_TENSOR_COPY_H_
#define CUFLASH_SIMT_DEVICE_PTX_TENSOR_COPY_H_

#include <cuda_runtime.h>

#include "device/host/tensor_map.h"
#include "device/ptx/shared_address.h"

namespace cuflash::simt {

void issue_tensor_copy(void* shared, const TensorMap& map, const int (&first)[4], void* barrier);
void fence_proxy_async();
void fence_proxy_async_global();

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void tensor_copy(SharedAddress shared, const TensorMap& map, int x0, int x1, int x2,
                                 int x3, SharedAddress barrier) {
  simt::issue_tensor_copy(shared.value, map, {x0, x1, x2, x3}, barrier.value);
}
__forceinline__ void prefetch_tensor_map(const TensorMap&) {}
__forceinline__ void fence_proxy_async() { simt::fence_proxy_async(); }
__forceinline__ void fence_proxy_async_global() { simt::fence_proxy_async_global(); }

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_TENSOR_COPY_H_
