// PTX cp.reduce.async.bulk: one thread instructs the copy unit (TMA) to add floats in shared memory
// to floats in global memory. Compute capability 9.0.
//
// Reductions belong to the thread's groups of stores, and are committed and waited for with them
// (device/ptx/tensor_store.h). A reduction reads its source as a store does: each thread that has
// written to it calls fence_proxy_async() (device/ptx/tensor_copy.h) before the barrier that orders
// its writes before the reduction.
#ifndef CUFLASH_DEVICE_PTX_BULK_REDUCE_H_
#define CUFLASH_DEVICE_PTX_BULK_REDUCE_H_

#include <cuda_runtime.h>

#include "device/instruments/points.h"
#include "device/ptx/shared_address.h"
#include "device/ptx/tensor_store.h"

namespace cuflash::ptx {

// Starts adding `bytes` bytes of floats to those at `sums`. Both addresses and the size must be
// multiples of 16 bytes. Each addition is atomic; their order is unspecified.
__device__ __forceinline__ void bulk_reduce_add(float* sums, SharedAddress terms, int bytes) {
  instruments::may_be_late();
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
               :
               : "l"(__cvta_generic_to_global(sums)), "r"(terms.value), "r"(bytes)
               : "memory");
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_BULK_REDUCE_H_
