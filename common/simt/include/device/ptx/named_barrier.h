// The CPU simulator's bar.sync.
#ifndef CUFLASH_SIMT_DEVICE_PTX_NAMED_BARRIER_H_
#define CUFLASH_SIMT_DEVICE_PTX_NAMED_BARRIER_H_

#include <cuda_runtime.h>

namespace cuflash::simt {

void sync_named_barrier(int barrier, int threads);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void named_barrier_sync(int barrier, int threads) {
  simt::sync_named_barrier(barrier, threads);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_NAMED_BARRIER_H_
