// PTX cp.async.bulk.tensor, the other way: one thread has a box of a tensor written from shared to
// global memory by the hardware's copy unit (TMA). Compute capability 9.0.
//
// Stores are waited for in groups, those of the thread. What threads have written to the source, a
// store reads if each of them has called fence_proxy_async() (device/ptx/tensor_copy.h) before the
// barrier that orders its writes before the store.
#ifndef CUFLASH_DEVICE_PTX_TENSOR_STORE_H_
#define CUFLASH_DEVICE_PTX_TENSOR_STORE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "device/host/tensor_map.h"
#include "device/instruments/points.h"
#include "device/ptx/shared_address.h"

namespace cuflash::ptx {

// Begins to write the box whose first element is (x0, x1, x2, x3), the innermost coordinate first;
// x0 is a multiple of 8 elements, 16 bytes. Elements past the tensor's end are left out. Unlike a
// copy's, no coordinate is negative: an H200 ends with an illegal instruction. `shared` is a
// multiple of 128 bytes. The map is a kernel parameter, __grid_constant__.
__device__ __forceinline__ void tensor_store(const TensorMap& map, int x0, int x1, int x2, int x3,
                                             SharedAddress shared) {
  instruments::may_be_late();
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
      :
      : "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(x0), "r"(x1), "r"(x2), "r"(x3),
        "r"(shared.value)
      : "memory");
}

// Makes one group of the stores that the thread has begun since the last call.
__device__ __forceinline__ void tensor_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all of the thread's groups but the last kPending have read their source, which may
// then be overwritten. A block must not end before. Without tensor_store_wait(), a group's writes
// are complete only when the grid is: too late for a dependent launch that is allowed to start
// earlier.
template <int kPending>
__device__ __forceinline__ void tensor_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Waits until all of the thread's groups but the last kPending have ended: the thread sees what
// they have written.
template <int kPending>
__device__ __forceinline__ void tensor_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_TENSOR_STORE_H_
