// 17_persistent_backward: slices of dQ, which begin as zeros and are rounded in the end.
#pragma once

#include "device/hopper.h"
#include "pieces.cuh"

namespace cuflash::persistent_backward {

// The workspace, with two counts for each group of heads: for how many of its pieces zeros have
// been written on the way, and how many have been added, each as often as there are warps or
// threads for it.
struct GroupCounts {
  unsigned *zeroed, *added;
};
template <class Tile>
DqWorkspace workspace(const BackwardParams& p, const Schedule& schedule) {
  // There is at most a group for each head.
  DqWorkspace scratch = dq_workspace<Tile, Tile::kWarpgroups>(p, 2 * schedule.order.heads);
  scratch.zeros =
      std::int64_t{schedule.first_slice(schedule.lead)} * (Tile::kFloats / Tile::kWarps);
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
  constexpr int kVectors = Tile::kFloats / Tile::kWarps / 4;
  float4* const dq = reinterpret_cast<float4*>(scratch.dq) + std::int64_t{begin} * kVectors;
#pragma unroll 1
  for (int n = thread; n < (end - begin) * kVectors; n += threads) dq[n] = float4{};
}

// Transposes a 4 × 4 block across the four lanes of a quad.
__device__ __forceinline__ void transpose_in_quad(std::uint32_t (&x)[4], int lane) {
#pragma unroll
  for (int bit = 1; bit <= 2; ++bit) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int low = bit == 1 ? 2 * n : n, high = low + bit;
      const std::uint32_t got =
          __shfl_xor_sync(0xffffffffu, upper ? x[low] : x[high], static_cast<unsigned>(bit));
      if (upper) {
        x[low] = got;
      } else {
        x[high] = got;
      }
    }
  }
}

// Rounds accumulators of neighbouring columns, scaled, and writes them to a tensor. A lane has two
// columns of each, in two rows. It writes all eight of one, at `to` and eight rows below; of these
// rows `rows_left` and less are there.
constexpr int kWrittenTogether = 4;
template <class T>
__device__ __forceinline__ void write_rounded(T* to, std::int64_t row_stride, int rows_left,
                                              const float4 (&r)[kWrittenTogether], float scale,
                                              int lane) {
  std::uint32_t upper[kWrittenTogether], lower[kWrittenTogether];
#pragma unroll
  for (int n = 0; n < kWrittenTogether; ++n) {
    upper[n] = pack<T>(r[n].x * scale, r[n].y * scale);
    lower[n] = pack<T>(r[n].z * scale, r[n].w * scale);
  }
  transpose_in_quad(upper, lane);
  transpose_in_quad(lower, lane);
  const auto write = [&](int row, const std::uint32_t(&x)[kWrittenTogether]) {
    if (row < rows_left) {
      *reinterpret_cast<uint4*>(to + row * row_stride) = {x[0], x[1], x[2], x[3]};
    }
  };
  write(0, upper);
  write(kMmaM / 2, lower);
}

// dQ = softmax_scale · dQ, rounded: a warp a slice.
template <class T, class Tile>
__device__ __forceinline__ void round_slice(const BackwardParams& p, const DqWorkspace& scratch,
                                            int slice, int lane) {
  const int warp = slice % Tile::kWarps;
  const auto [b, h, tile, unused] = unravel(slice / Tile::kWarps, p.heads_q, scratch.q_tiles, 1);
  const int i = tile * Tile::kRows + Tile::row(warp) + MmaAccumulator::row(lane, 0);
  const int rows_left = sequence(p, b).num_queries - i;
  const float* from =
      &scratch.dq[std::int64_t{slice} * (Tile::kFloats / Tile::kWarps) + Tile::index(0, 0, lane)];
  T* to = &rows<T>(p.dq, b, h)(i, Tile::col(warp) + lane % 4 * kMmaN);
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

// Rounds the slices that are left, from `first` on. A warp rounds one.
template <class T, class Tile>
__global__ void query_gradient(const __grid_constant__ BackwardParams p,
                               const __grid_constant__ DqWorkspace scratch, int first,
                               std::int64_t count) {
  const std::int64_t n = thread_index();
  if (n >= count) return;
  round_slice<T, Tile>(p, scratch, static_cast<int>(first + n / 32), static_cast<int>(n % 32));
}

}  // namespace cuflash::persistent_backward
