// PTX cp.async.bulk.tensor: one thread has a box of a tensor copied from global to shared memory by
// the hardware's copy unit (TMA). Compute capability 9.0.
#ifndef CUFLASH_DEVICE_PTX_TENSOR_COPY_H_
#define CUFLASH_DEVICE_PTX_TENSOR_COPY_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "device/host/tensor_map.h"
#include "device/instruments/points.h"
#include "device/ptx/shared_address.h"

namespace cuflash::ptx {

// Begins to copy the box whose first element is (x0, x1, x2, x3), the innermost coordinate first;
// x0 is a multiple of 8 elements, 16 bytes. Elements outside the tensor become zeros. `shared` is a
// multiple of 128 bytes. `barrier` is told of every byte of the box, zeros included; the data are
// there for a thread that has waited for its phase. The map is a kernel parameter,
// __grid_constant__.
__device__ __forceinline__ void tensor_copy(SharedAddress shared, const TensorMap& map, int x0,
                                            int x1, int x2, int x3, SharedAddress barrier) {
  instruments::may_be_late();
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];"
      :
      : "r"(shared.value), "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(x0), "r"(x1), "r"(x2),
        "r"(x3), "r"(barrier.value)
      : "memory");
}

// Has the map fetched, so that the first copy need not wait for it.
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];"
               :
               : "l"(reinterpret_cast<std::uint64_t>(&map))
               : "memory");
}

// Orders what threads have written to shared memory, or read there, before the copies that replace
// it. Either each of these threads calls it before the barrier that orders its accesses before the
// copy, or the thread that begins the copy calls it after that barrier.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Orders what threads have written to global memory before asynchronous copies and reductions
// there: a thread that has written calls it, and so does, when it has learned of that, the one that
// issues them. The issuing thread also calls it if they must come after another block's.
__device__ __forceinline__ void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_TENSOR_COPY_H_
