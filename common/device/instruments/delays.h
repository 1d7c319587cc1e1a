// The words of kernels that wait, arrive or ask for copies, late at random. In builds with
// CUFLASH_DELAYS the compiler reads this file before a stage's; neither the stage nor the words
// themselves know of it. What is right only because something usually comes first fails here.
#ifndef CUFLASH_DEVICE_INSTRUMENTS_DELAYS_H_
#define CUFLASH_DEVICE_INSTRUMENTS_DELAYS_H_

#include <cuda_runtime.h>

// Each late word calls the one that it replaces by this name.
#define bulk_reduce_add bulk_reduce_add_itself
#define mbarrier_arrive mbarrier_arrive_itself
#define mbarrier_wait mbarrier_wait_itself
#define named_barrier_arrive named_barrier_arrive_itself
#define named_barrier_or named_barrier_or_itself
#define named_barrier_sync named_barrier_sync_itself
#define tensor_copy tensor_copy_itself
#define tensor_store tensor_store_itself
#define wgmma_wait wgmma_wait_itself
#include "device/ptx/bulk_reduce.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/named_barrier.h"
#include "device/ptx/tensor_copy.h"
#include "device/ptx/tensor_store.h"
#include "device/ptx/wgmma.h"
#undef bulk_reduce_add
#undef mbarrier_arrive
#undef mbarrier_wait
#undef named_barrier_arrive
#undef named_barrier_or
#undef named_barrier_sync
#undef tensor_copy
#undef tensor_store
#undef wgmma_wait

namespace cuflash::delays {

// In one call of eight, sleeps for up to 8 µs. The lanes of a warp that call together sleep
// together: what decides is the clock, the warp and the block.
__device__ __forceinline__ void delay() {
  unsigned x =
      static_cast<unsigned>(clock()) + threadIdx.x / 32 * 0x9e3779b9u + blockIdx.x * 0x85ebca6bu;
  x = (x ^ x >> 15) * 0x2c1b3c6du;
  x ^= x >> 12;
  __nanosleep(x % 8 == 0 ? x >> 20 : 0);  // sleeps up to twice as long
}

}  // namespace cuflash::delays

namespace cuflash::ptx {

using delays::delay;

__device__ __forceinline__ void bulk_reduce_add(float* sums, SharedAddress terms, int bytes) {
  delay();
  bulk_reduce_add_itself(sums, terms, bytes);
}

__device__ __forceinline__ void mbarrier_arrive(SharedAddress barrier) {
  delay();
  mbarrier_arrive_itself(barrier);
}

__device__ __forceinline__ void mbarrier_wait(SharedAddress barrier, unsigned parity) {
  delay();
  mbarrier_wait_itself(barrier, parity);
  delay();
}

__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
  delay();
  named_barrier_arrive_itself(barrier, threads);
}

__device__ __forceinline__ bool named_barrier_or(int barrier, int threads, bool mine) {
  delay();
  const bool any = named_barrier_or_itself(barrier, threads, mine);
  delay();
  return any;
}

__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
  delay();
  named_barrier_sync_itself(barrier, threads);
  delay();
}

__device__ __forceinline__ void tensor_copy(SharedAddress shared, const TensorMap& map, int x0,
                                            int x1, int x2, int x3, SharedAddress barrier) {
  delay();
  tensor_copy_itself(shared, map, x0, x1, x2, x3, barrier);
}

__device__ __forceinline__ void tensor_store(const TensorMap& map, int x0, int x1, int x2, int x3,
                                             SharedAddress shared) {
  delay();
  tensor_store_itself(map, x0, x1, x2, x3, shared);
}

template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  delay();
  wgmma_wait_itself<kPending>();
  delay();
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_INSTRUMENTS_DELAYS_H_
