// The CPU simulator's bar.sync, bar.arrive and bar.red.
#ifndef CUFLASH_SIMT_DEVICE_PTX_NAMED_BARRIER_H_
#define CUFLASH_SIMT_DEVICE_PTX_NAMED_BARRIER_H_

#include <cuda_runtime.h>

namespace cuflash::simt {

enum class Coming { kArrives, kWaits, kWaitsForOr };

// A thread that does not wait counts, and goes on. With kWaitsForOr: true if `mine` of any comer
// is.
bool come_to_named_barrier(int barrier, int threads, Coming how, bool mine = false);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void named_barrier_sync(int barrier, int threads) {
  simt::come_to_named_barrier(barrier, threads, simt::Coming::kWaits);
}
__forceinline__ void named_barrier_arrive(int barrier, int threads) {
  simt::come_to_named_barrier(barrier, threads, simt::Coming::kArrives);
}
__forceinline__ bool named_barrier_or(int barrier, int threads, bool mine) {
  return simt::come_to_named_barrier(barrier, threads, simt::Coming::kWaitsForOr, mine);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_NAMED_BARRIER_H_
