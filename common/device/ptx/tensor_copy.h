// PTX cp.async.bulk.tensor: one thread instructs the copy unit (TMA) to copy a box of a tensor from
// global to shared memory. Compute capability 9.0.
#ifndef CUFLASH_DEVICE_PTX_TENSOR_COPY_H_
#define CUFLASH_DEVICE_PTX_TENSOR_COPY_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "device/host/tensor_map.h"
#include "device/instruments/points.h"
#include "device/ptx/shared_address.h"

namespace cuflash::ptx {

// Starts copying the box whose first element is (x0, x1, x2, x3), the innermost coordinate first;
// x0 must be a multiple of 8 elements, 16 bytes. Elements outside the tensor become zeros. `shared`
// must be a multiple of 128 bytes. `barrier` counts every byte of the box, zeros included; a thread
// that has waited for its phase sees the data. The map must be a __grid_constant__ kernel
// parameter.
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

// Prefetches the map, so that the first copy need not wait for it.
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];"
               :
               : "l"(reinterpret_cast<std::uint64_t>(&map))
               : "memory");
}

// Orders threads' accesses to shared memory before later accesses to it by copies, stores and
// products. Either each of these threads calls it before the barrier between the two, or the thread
// that issues the copy calls it after that barrier: PTX's manual ("membar / fence", "Causality
// Order") names no side, and NVIDIA's formal model (Lustig, Cooksey, Giroux, ISCA 2022) accepts a
// fence anywhere between the accesses, in the block of the copy.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Orders threads' writes to global memory before asynchronous copies and reductions there. Each
// thread that has written calls it, and so does the issuing thread once it has synchronized with
// them. The issuing thread also calls it if its operations must follow those of another block.
__device__ __forceinline__ void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_TENSOR_COPY_H_
