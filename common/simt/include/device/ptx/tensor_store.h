// The CPU simulator's stores of boxes. A store reads its source at the wait for the reading, and
// writes at the wait for its end or when the block has ended.
#ifndef CUFLASH_SIMT_DEVICE_PTX_TENSOR_STORE_H_
#define CUFLASH_SIMT_DEVICE_PTX_TENSOR_STORE_H_

#include <cuda_runtime.h>

#include "device/host/tensor_map.h"
#include "device/ptx/shared_address.h"

namespace cuflash::simt {

void issue_tensor_store(const TensorMap& map, const int (&first)[4], const void* shared);
void commit_tensor_stores();
// Waits for all of the thread's groups except the last `pending`: for their end, or only until they
// have read their source.
void wait_for_tensor_stores(int pending, bool only_read);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void tensor_store(const TensorMap& map, int x0, int x1, int x2, int x3,
                                  SharedAddress shared) {
  simt::issue_tensor_store(map, {x0, x1, x2, x3}, shared.value);
}
__forceinline__ void tensor_store_commit() { simt::commit_tensor_stores(); }
template <int kPending>
__forceinline__ void tensor_store_wait_read() {
  static_assert(kPending >= 0, "a number of groups");
  simt::wait_for_tensor_stores(kPending, true);
}
template <int kPending>
__forceinline__ void tensor_store_wait() {
  static_assert(kPending >= 0, "a number of groups");
  simt::wait_for_tensor_stores(kPending, false);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_TENSOR_STORE_H_
