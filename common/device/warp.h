// Reductions over the 32 lanes of a warp. Every lane gets the result, the same to the bit.
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

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_WARP_H_
