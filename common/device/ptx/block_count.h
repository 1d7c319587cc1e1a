// PTX ld.acquire and red.release: counts in global memory by which blocks wait for each other.
//
// A thread's accesses before block_count_add() happen before the accesses that follow another
// thread's block_count_wait(), if that wait sees a count that includes the addition.
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

// Waits until a count has this value. The count must not pass the value meanwhile: it is the final
// value, or the waiting thread makes the next addition. The blocks that add must already be
// running: blocks need not start in the order of their indices.
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
