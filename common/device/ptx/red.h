// PTX red: atomic additions to global memory that return nothing.
#ifndef CUFLASH_DEVICE_PTX_RED_H_
#define CUFLASH_DEVICE_PTX_RED_H_

#include <cuda_runtime.h>

namespace cuflash::ptx {

// An accumulator of mma.sync in global memory: 32 lanes with four floats each, 512 bytes at a
// multiple of 16. Its order minimizes the requests of a warp's addition. From compute capability
// 9.0 on, one request adds 16 bytes per lane; on earlier devices, 4 bytes.

// Adds the lane's floats to the accumulator in memory.
__device__ __forceinline__ void red_add(float* accumulator, int lane, const float (&x)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(accumulator + 4 * lane)), "f"(x[0]), "f"(x[1]),
                 "f"(x[2]), "f"(x[3])
               : "memory");
#else
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(accumulator + 32 * e + lane)), "f"(x[e])
                 : "memory");
  }
#endif
}

// Adds the accumulator in memory to the lane's floats.
__device__ __forceinline__ void add_from(const float* accumulator, int lane, float (&x)[4]) {
#if __CUDA_ARCH__ >= 900
  const float4 y = *reinterpret_cast<const float4*>(accumulator + 4 * lane);
  x[0] += y.x, x[1] += y.y, x[2] += y.z, x[3] += y.w;
#else
#pragma unroll
  for (int e = 0; e < 4; ++e) x[e] += accumulator[32 * e + lane];
#endif
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_RED_H_
