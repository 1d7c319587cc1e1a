// PTX cp.async.bulk.tensor, stores: one thread instructs the copy unit (TMA) to write a box of a
// tensor from shared to global memory. Compute capability 9.0.
//
// A thread waits for its stores in groups. A store sees what threads have written to its source if
// each of them has called fence_proxy_async() (device/ptx/tensor_copy.h) before the barrier that
// orders its writes before the store.
#ifndef CUFLASH_DEVICE_PTX_TENSOR_STORE_H_
#define CUFLASH_DEVICE_PTX_TENSOR_STORE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "device/host/tensor_map.h"
#include "device/instruments/points.h"
#include "device/ptx/shared_address.h"

namespace cuflash::ptx {

// Starts writing the box whose first element is (x0, x1, x2, x3), the innermost coordinate first;
// x0 must be a multiple of 8 elements, 16 bytes. Elements past the tensor's end are skipped. Unlike
// in a copy, no coordinate may be negative: an H200 reports an illegal instruction. `shared` must
// be a multiple of 128 bytes. The map must be a __grid_constant__ kernel parameter.
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

// Commits the thread's stores since its last commit as one group.
__device__ __forceinline__ void tensor_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all of the thread's groups but the last kPending have read their source, which may
// then be overwritten. A block must not end earlier. Without tensor_store_wait(), a group's writes
// are complete only at the end of the grid: too late for a dependent launch that may start earlier.
template <int kPending>
__device__ __forceinline__ void tensor_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Waits until all of the thread's groups but the last kPending are complete. The thread then sees
// their writes.
template <int kPending>
__device__ __forceinline__ void tensor_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_TENSOR_STORE_H_
