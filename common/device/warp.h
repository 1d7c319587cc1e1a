// Reductions over the 32 lanes of a warp, or over the quad of 4 lanes that holds a row of an
// accumulator. Every lane gets the same bits.
#ifndef CUFLASH_DEVICE_WARP_H_
#define CUFLASH_DEVICE_WARP_H_

#include <cuda_runtime.h>

namespace cuflash {

__device__ __forceinline__ float warp_max(float x) {
  for (int distance = 16; distance > 0; distance /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
  }
  return x;
}

__device__ __forceinline__ float warp_sum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, distance);
  }
  return x;
}

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_WARP_H_
