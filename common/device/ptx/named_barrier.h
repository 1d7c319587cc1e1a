// PTX bar.sync and bar.arrive: barriers 1 to 15 of a block, for some of its warps. Barrier 0 is
// __syncthreads().
#ifndef CUFLASH_DEVICE_PTX_NAMED_BARRIER_H_
#define CUFLASH_DEVICE_PTX_NAMED_BARRIER_H_

#include <cuda_runtime.h>

#include "device/instruments/points.h"

namespace cuflash::ptx {

// Waits until this many threads, in whole warps, have arrived at the barrier. Their accesses before
// it happen before the accesses that follow it.
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads,
                                                   instruments::Line line = {}) {
  const instruments::Wait wait(instruments::Kind::kNamedBarrier, line, barrier);
  asm volatile("bar.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

// Arrives at the barrier without waiting. The thread's earlier accesses happen before the accesses
// that follow the named_barrier_sync() of other threads.
__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
  instruments::may_be_late();
  asm volatile("bar.arrive %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_NAMED_BARRIER_H_
