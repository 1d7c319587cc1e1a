// The CPU simulator's bar.sync and bar.arrive.
#ifndef CUFLASH_SIMT_DEVICE_PTX_NAMED_BARRIER_H_
#define CUFLASH_SIMT_DEVICE_PTX_NAMED_BARRIER_H_

#include <cuda_runtime.h>

namespace cuflash::simt {

enum class Coming { kArrives, kWaits };

// A thread that does not wait is counted and goes on.
void come_to_named_barrier(int barrier, int threads, Coming how);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void named_barrier_sync(int barrier, int threads) {
  simt::come_to_named_barrier(barrier, threads, simt::Coming::kWaits);
}
__forceinline__ void named_barrier_arrive(int barrier, int threads) {
  simt::come_to_named_barrier(barrier, threads, simt::Coming::kArrives);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_NAMED_BARRIER_H_
