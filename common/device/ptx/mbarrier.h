// PTX mbarrier: barriers in shared memory that count arriving threads and the bytes of asynchronous
// copies. Compute capability 9.0.
//
// A barrier is a std::uint64_t in shared memory. It goes through phases, counted from 0. A phase
// completes when the number of arrivals given to mbarrier_init() and all expected bytes have been
// counted; the next phase begins at once. A thread's accesses before its arrival happen before the
// accesses that follow a wait for that phase.
//
// The functions of instruments:: are empty in the usual build (device/instruments/points.h).
#ifndef CUFLASH_DEVICE_PTX_MBARRIER_H_
#define CUFLASH_DEVICE_PTX_MBARRIER_H_

#include <cuda_runtime.h>

#include "device/instruments/points.h"
#include "device/ptx/shared_address.h"

namespace cuflash::ptx {

// Begins phase 0, with this many arrivals in each phase. One thread calls it; a
// fence_mbarrier_init() of that thread and a __syncthreads() must follow before others use the
// barrier.
__device__ __forceinline__ void mbarrier_init(SharedAddress barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :
               : "r"(barrier.value), "r"(arrivals)
               : "memory");
}

// Makes the thread's calls of mbarrier_init() visible to the other blocks of a cluster. No proxy
// fence is needed: a copy reaches its barrier through the generic proxy.
__device__ __forceinline__ void fence_mbarrier_init(instruments::Line line = {}) {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  instruments::note(instruments::Kind::kBlock, line, blockIdx.x);
}

// Counts one arrival in the current phase.
__device__ __forceinline__ void mbarrier_arrive(SharedAddress barrier) {
  instruments::may_be_late();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier.value) : "memory");
}

// Arrives, and adds this many bytes of copies to those that the phase expects.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(SharedAddress barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(barrier.value), "r"(bytes)
               : "memory");
}

// Waits until the phase of this parity, 0 or 1, is complete: the current phase or the one before
// it, whichever has that parity. During phase 0, a wait for parity 1 returns at once.
__device__ __forceinline__ void mbarrier_wait(SharedAddress barrier, unsigned parity,
                                              instruments::Line line = {}) {
  instruments::Wait wait(instruments::Kind::kWait, line, barrier.value);
  // The maximum time for which the hardware may suspend the thread, nanoseconds.
  constexpr unsigned kSuspend = 1000000;
  unsigned done;
  do {
    asm volatile(
        "{ .reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2, %3;\n"
        "selp.u32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(barrier.value), "r"(parity), "n"(kSuspend)
        : "memory");
    if (done == 0) wait.goes_on(barrier.value, parity);
  } while (done == 0);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_MBARRIER_H_
