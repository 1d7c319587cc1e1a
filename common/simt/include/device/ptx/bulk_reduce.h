// The CPU simulator's cp.reduce.async.bulk: a store that adds (tensor_store.h). It reads its source
// at the wait for the reading, and adds at the wait for its end or when the block has ended.
#ifndef CUFLASH_SIMT_DEVICE_PTX_BULK_REDUCE_H_
#define CUFLASH_SIMT_DEVICE_PTX_BULK_REDUCE_H_

#include <cuda_runtime.h>

#include "device/ptx/shared_address.h"
#include "device/ptx/tensor_store.h"

namespace cuflash::simt {

void issue_bulk_reduction(float* sums, const void* shared, int bytes);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void bulk_reduce_add(float* sums, SharedAddress terms, int bytes) {
  simt::issue_bulk_reduction(sums, terms.value, bytes);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_BULK_REDUCE_H_
