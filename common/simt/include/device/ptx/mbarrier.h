// The CPU simulator's mbarrier. Its state is not stored in the 8 bytes of shared memory.
#ifndef CUFLASH_SIMT_DEVICE_PTX_MBARRIER_H_
#define CUFLASH_SIMT_DEVICE_PTX_MBARRIER_H_

#include <cuda_runtime.h>

#include "device/ptx/shared_address.h"

namespace cuflash::simt {

void init_mbarrier(void* barrier, unsigned arrivals);
void fence_mbarrier_inits();
void arrive_at_mbarrier(void* barrier, unsigned expected_bytes);
void wait_at_mbarrier(void* barrier, unsigned parity);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void mbarrier_init(SharedAddress barrier, unsigned arrivals) {
  simt::init_mbarrier(barrier.value, arrivals);
}
__forceinline__ void fence_mbarrier_init() { simt::fence_mbarrier_inits(); }
__forceinline__ void mbarrier_arrive(SharedAddress barrier) {
  simt::arrive_at_mbarrier(barrier.value, 0);
}
__forceinline__ void mbarrier_arrive_expect_tx(SharedAddress barrier, unsigned bytes) {
  simt::arrive_at_mbarrier(barrier.value, bytes);
}
__forceinline__ void mbarrier_wait(SharedAddress barrier, unsigned parity) {
  simt::wait_at_mbarrier(barrier.value, parity);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_MBARRIER_H_
