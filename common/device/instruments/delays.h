// Random delays of warps, in builds with CUFLASH_DELAYS. Code that relies on the usual timing fails
// there.
#ifndef CUFLASH_DEVICE_INSTRUMENTS_DELAYS_H_
#define CUFLASH_DEVICE_INSTRUMENTS_DELAYS_H_

#include <cuda_runtime.h>

namespace cuflash::delays {

// Sleeps for up to 8 µs in one call of eight. The lanes of a warp that call together sleep
// together: the delay depends only on the clock, the warp and the block.
__device__ __forceinline__ void delay() {
  unsigned x =
      static_cast<unsigned>(clock()) + threadIdx.x / 32 * 0x9e3779b9u + blockIdx.x * 0x85ebca6bu;
  x = (x ^ x >> 15) * 0x2c1b3c6du;
  x ^= x >> 12;
  __nanosleep(x % 8 == 0 ? x >> 20 : 0);  // may sleep up to twice as long
}

}  // namespace cuflash::delays

#endif  // CUFLASH_DEVICE_INSTRUMENTS_DELAYS_H_
