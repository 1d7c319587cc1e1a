// 18_dq_on_the_way: slices of dQ, which begin as zeros and are rounded in the end.
#pragma once

#include "device/hopper.h"
#include "pieces.cuh"

namespace cuflash::dq_on_the_way {

// The floats of a slice, which one warp holds.
template <class Tile>
constexpr int kSliceFloats = Tile::kFloats / Tile::kWarps;

// Two counts for each group of heads: `zeroed` is how often a keeper has written its part of a
// piece's zeros, and `added` is the number of pieces whose whole dQ has been added.
struct GroupCounts {
  unsigned *zeroed, *added;
};
// The workspace. It has no counts of additions to shares. Behind `next` lie the counts of all
// groups, first `zeroed`, then `added`. The previous kernel zeroes the slices of the first `lead`
// pieces.
template <class Tile>
DqWorkspace workspace(const BackwardParams& p, const Schedule& schedule) {
  // Both counts have as many places as there are heads: there are at most as many groups.
  DqWorkspace scratch = dq_workspace<Tile, 0>(p, 2 * schedule.order.heads);
  scratch.zeros = std::int64_t{schedule.first_slice(schedule.lead)} * kSliceFloats<Tile>;
  return scratch;
}
__device__ __forceinline__ GroupCounts group_counts(const DqWorkspace& scratch,
                                                    const Schedule& schedule) {
  return {scratch.next + 1, scratch.next + 1 + schedule.order.heads};
}

// Some threads write the zeros of slices.
template <class Tile>
__device__ __forceinline__ void zero_slices(const DqWorkspace& scratch, int begin, int end,
                                            int thread, int threads) {
  constexpr int kVectors = kSliceFloats<Tile> / 4;
  float4* const dq = reinterpret_cast<float4*>(scratch.dq) + std::int64_t{begin} * kVectors;
#pragma unroll 1
  for (int n = thread; n < (end - begin) * kVectors; n += threads) dq[n] = float4{};
}

// dQ = softmax_scale · dQ, rounded. One warp rounds one slice.
template <class T, class Tile>
__device__ __forceinline__ void round_slice(const BackwardParams& p, const DqWorkspace& scratch,
                                            int slice, int lane) {
  const int warp = slice % Tile::kWarps;
  const auto [b, h, tile, unused] = unravel(slice / Tile::kWarps, p.heads_q, scratch.q_tiles, 1);
  const int i = tile * Tile::kRows + Tile::row(warp) + MmaAccumulator::row(lane, 0);
  const int rows_left = sequence(p, b).num_queries - i;
  // A slice lies in memory as its warp held it.
  const float* from =
      &scratch.dq[std::int64_t{slice} * kSliceFloats<Tile> + Tile::index(0, 0, lane)];
  T* to = &rows<T>(p.dq, b, h)(i, Tile::col(warp) + lane % kWrittenTogether * kMmaN);
#pragma unroll 1
  for (int m = 0; m < Tile::kWarpColumns / kMmaN; m += kWrittenTogether) {
    float4 sum[kWrittenTogether];
#pragma unroll
    for (int f = 0; f < kWrittenTogether; ++f) {
      sum[f] = *reinterpret_cast<const float4*>(from + Tile::index(0, f, 0));
    }
    write_rounded(to, p.dq.row_stride, rows_left, sum, p.softmax_scale, lane);
    from += Tile::index(0, kWrittenTogether, 0), to += kWrittenTogether * kMmaN;
  }
}

// Rounds the slices that are left, from `first` on.
template <class T, class Tile>
__global__ void query_gradient(const __grid_constant__ BackwardParams p,
                               const __grid_constant__ DqWorkspace scratch, int first,
                               std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  round_slice<T, Tile>(p, scratch, static_cast<int>(first + n / 32), static_cast<int>(n % 32));
}

}  // namespace cuflash::dq_on_the_way
