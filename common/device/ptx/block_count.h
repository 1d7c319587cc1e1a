// PTX ld.acquire and red.release: counts in global memory by which blocks wait for others.
//
// What a thread did before block_count_add() happens before what follows the block_count_wait() of
// another thread that sees the count with this addition.
#ifndef CUFLASH_DEVICE_PTX_BLOCK_COUNT_H_
#define CUFLASH_DEVICE_PTX_BLOCK_COUNT_H_

#include <cuda_runtime.h>

namespace cuflash::ptx {

// Adds 1 to a count.
__device__ __forceinline__ void block_count_add(unsigned* count) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;"
               :
               : "l"(__cvta_generic_to_global(count))
               : "memory");
}

// Waits until a count has this value, which it must not pass meanwhile: the value is the count's
// last, or the waiting thread is the next that adds. What it waits for must be done by blocks that
// are running: the order in which blocks begin is not that of their indices.
__device__ __forceinline__ void block_count_wait(const unsigned* count, unsigned value) {
  unsigned now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(now)
                 : "l"(__cvta_generic_to_global(count))
                 : "memory");
  } while (now != value);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_BLOCK_COUNT_H_
