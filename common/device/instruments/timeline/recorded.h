// The words of kernels that wait, issue products or request tiles, recorded. In builds with
// CUFLASH_TIMELINE the compiler reads this file before a stage's; neither the stage nor the words
// themselves know of it.
#ifndef CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_RECORDED_H_
#define CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_RECORDED_H_

#include <cuda_runtime.h>

#include <cstddef>

#include "device/instruments/timeline/record.h"

// Each recorded word calls the one that it replaces by this name.
#define fence_mbarrier_init fence_mbarrier_init_itself
#define issue_ab issue_ab_itself
#define issue_abt issue_abt_itself
#define issue_atb issue_atb_itself
#define mark_tile mark_tile_itself
#define mbarrier_wait mbarrier_wait_itself
#define named_barrier_sync named_barrier_sync_itself
#define request_tile request_tile_itself
#define setmaxnreg_dec setmaxnreg_dec_itself
#define setmaxnreg_inc setmaxnreg_inc_itself
#define wgmma_commit wgmma_commit_itself
#define wgmma_fence wgmma_fence_itself
#define wgmma_wait wgmma_wait_itself
#include "device/products.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/named_barrier.h"
#include "device/ptx/setmaxnreg.h"
#include "device/ptx/wgmma.h"
#include "device/tile_mark.h"
#include "device/tile_requests.h"
#undef fence_mbarrier_init
#undef issue_ab
#undef issue_abt
#undef issue_atb
#undef mark_tile
#undef mbarrier_wait
#undef named_barrier_sync
#undef request_tile
#undef setmaxnreg_dec
#undef setmaxnreg_inc
#undef wgmma_commit
#undef wgmma_fence
#undef wgmma_wait

// The last parameter of a word is the line of its call.
namespace cuflash::ptx {

using timeline::Kind;

// Stands for the beginning of the block.
__device__ __forceinline__ void fence_mbarrier_init(int line = __builtin_LINE()) {
  fence_mbarrier_init_itself();
  timeline::record(Kind::kBlock, line, timeline::nanoseconds(), blockIdx.x);
}

__device__ __forceinline__ void mbarrier_wait(SharedAddress barrier, unsigned parity,
                                              int line = __builtin_LINE()) {
  const unsigned begin = timeline::cycles();
  mbarrier_wait_itself(barrier, parity);
  timeline::record(Kind::kWait, line, begin, barrier.value);
}

__device__ __forceinline__ void named_barrier_sync(int barrier, int threads,
                                                   int line = __builtin_LINE()) {
  const unsigned begin = timeline::cycles();
  named_barrier_sync_itself(barrier, threads);
  timeline::record(Kind::kNamedBarrier, line, begin, barrier);
}

__device__ __forceinline__ void wgmma_fence(int line = __builtin_LINE()) {
  timeline::record(Kind::kFence, line);
  wgmma_fence_itself();
}

__device__ __forceinline__ void wgmma_commit(int line = __builtin_LINE()) {
  wgmma_commit_itself();
  timeline::record(Kind::kCommit, line);
}

template <int kPending>
__device__ __forceinline__ void wgmma_wait(int line = __builtin_LINE()) {
  const unsigned begin = timeline::cycles();
  wgmma_wait_itself<kPending>();
  timeline::record(Kind::kProducts, line, begin, kPending);
}

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc(int line = __builtin_LINE()) {
  const unsigned begin = timeline::cycles();
  setmaxnreg_inc_itself<kRegisters>();
  timeline::record(Kind::kRegisters, line, begin, kRegisters);
}

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec(int line = __builtin_LINE()) {
  const unsigned begin = timeline::cycles();
  setmaxnreg_dec_itself<kRegisters>();
  timeline::record(Kind::kRegisters, line, begin, kRegisters);
}

}  // namespace cuflash::ptx

namespace cuflash {

__device__ __forceinline__ void mark_tile(const char*, int number, int line = __builtin_LINE()) {
  timeline::record(timeline::Kind::kTile, line, number);
}
__device__ __forceinline__ void mark_tile(std::nullptr_t, int, int line = __builtin_LINE()) {
  timeline::record(timeline::Kind::kLastTile, line, timeline::nanoseconds());
}

template <class T, int kRows, int kHeadDim>
__device__ __forceinline__ void request_tile(SwizzledTile<T, kRows, kHeadDim>& tile,
                                             const TileMap& map, int first, int head, int batch,
                                             std::uint64_t& full, int line = __builtin_LINE()) {
  const unsigned begin = timeline::cycles();
  request_tile_itself(tile, map, first, head, batch, full);
  timeline::record(timeline::Kind::kRequest, line, begin, ptx::SharedAddress(&full).value);
}

// The fence and the commit of a product.
template <class T, class D, class A, class B>
__device__ __forceinline__ void issue_abt(D& rD, const A& a, int a_row, const B& b, int b_row = 0,
                                          int line = __builtin_LINE()) {
  timeline::record(timeline::Kind::kFence, line);
  issue_abt_itself<T>(rD, a, a_row, b, b_row);
  timeline::record(timeline::Kind::kCommit, line);
}
template <class T, class D, class A, class B>
__device__ __forceinline__ void issue_ab(D& rD, const A& rA, const B& b,
                                         int line = __builtin_LINE()) {
  timeline::record(timeline::Kind::kFence, line);
  issue_ab_itself<T>(rD, rA, b);
  timeline::record(timeline::Kind::kCommit, line);
}
template <class T, class D, class A, class B>
__device__ __forceinline__ void issue_ab(D& rD, const A& a, int a_row, const B& b, int b_col,
                                         int line = __builtin_LINE()) {
  timeline::record(timeline::Kind::kFence, line);
  issue_ab_itself<T>(rD, a, a_row, b, b_col);
  timeline::record(timeline::Kind::kCommit, line);
}
template <class T, class D, class A, class B>
__device__ __forceinline__ void issue_atb(D& rD, const A& a, int a_col, const B& b, int b_col,
                                          int line = __builtin_LINE()) {
  timeline::record(timeline::Kind::kFence, line);
  issue_atb_itself<T>(rD, a, a_col, b, b_col);
  timeline::record(timeline::Kind::kCommit, line);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_RECORDED_H_
