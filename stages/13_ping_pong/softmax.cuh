// 13_ping_pong: the softmax of a tile of keys in the registers of a warp, with the maximum of the
// tile, or with the maximum so far. Every row is reduced by the four lanes that hold it.
#pragma once

#include <cmath>

#include "device/hopper.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mma.h"

namespace cuflash::ping_pong {

// When m is replaced by a larger maximum, and O and l are rescaled. softmax(): when a term of P
// would exceed 2 to the power of kSlack. softmax_with_old_max(), which does not look for the
// maximum: when the terms of a lane add up to more than kMost. Up to there each term fits f16,
// whose largest number is 65,504. A lane has at most 32 terms of a row, so one of them exceeds
// 2^kSlack.
constexpr float kSlack = 8.f, kMost = 16384.f;

// The two rows of which a lane holds parts.
struct RowState {
  float max[2];  // m · scale_log2, to be subtracted in one instruction
  float sum[2];  // l, of this lane's columns
};

// A maximum that can be subtracted, also of a row that has seen no key.
__device__ __forceinline__ float finite_max(float max) { return max == -INFINITY ? 0.f : max; }

// m = max(m, tile_max) in row r, if it grows by more than the slack; l = o_scale · l. Returns
// o_scale = exp(old m − m).
__device__ __forceinline__ float grow(RowState& row, int r, float tile_max) {
  const float old_max = row.max[r];
  if (tile_max - old_max > kSlack) row.max[r] = tile_max;
  const float o_scale = ptx::exp2(old_max - finite_max(row.max[r]));
  row.sum[r] *= o_scale;
  return o_scale;
}

// The maxima of this warp's rows in the tile, times scale_log2.
template <int kFragments>
__device__ __forceinline__ void tile_maxima(const float (&rS)[kFragments][4], float scale_log2,
                                            float (&tile_max)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float x = fmaxf(rS[0][2 * r], rS[0][2 * r + 1]);
#pragma unroll
    for (int n = 1; n < kFragments; ++n) x = fmaxf(x, fmaxf(rS[n][2 * r], rS[n][2 * r + 1]));
    tile_max[r] = quad_max(x) * scale_log2;
  }
}

// S becomes P = exp(S − max), still in f32, and `sum` the sums of this lane's terms.
template <int kFragments>
__device__ __forceinline__ void exponentials(float (&rS)[kFragments][4], float scale_log2,
                                             const float (&max)[2], float (&sum)[2]) {
  sum[0] = sum[1] = 0.f;
#pragma unroll
  for (int n = 0; n < kFragments; ++n) {
#pragma unroll
    for (int e = 0; e < MmaAccumulator::kElements; ++e) {
      rS[n][e] = ptx::exp2(fmaf(rS[n][e], scale_log2, -max[e / 2]));
      sum[e / 2] += rS[n][e];
    }
  }
}

// P = exp(S − m), l = o_scale · l + rowsum P, where m first becomes rowmax S in rows where that
// exceeds m by more than the slack. Returns true, in all lanes, if O must be multiplied by o_scale
// before P V is added; otherwise o_scale is not set.
template <int kFragments>
__device__ __forceinline__ bool softmax(float (&rS)[kFragments][4], RowState& row,
                                        float (&o_scale)[2], float scale_log2) {
  float tile_max[2];
  tile_maxima(rS, scale_log2, tile_max);
  // O and l are rescaled, but only in rows whose maximum has grown by more than the slack.
  const bool grew = tile_max[0] - row.max[0] > kSlack || tile_max[1] - row.max[1] > kSlack;
  const bool rescale = __any_sync(0xffffffffu, grew);
  if (rescale) {
#pragma unroll
    for (int r = 0; r < 2; ++r) o_scale[r] = grow(row, r, tile_max[r]);
  }
  const float max[2] = {finite_max(row.max[0]), finite_max(row.max[1])};
  float tile_sum[2];
  exponentials(rS, scale_log2, max, tile_sum);
#pragma unroll
  for (int r = 0; r < 2; ++r) row.sum[r] += tile_sum[r];
  return rescale;
}

// P = exp(S − m) with m as it is, for a tile without a mask. tile_sum becomes the sums of this
// lane's terms. If no lane's sum is too large, adds them to l and returns false. Otherwise, and
// always if m = -inf, leaves l as it is and returns true in all lanes. Then the caller must call
// recompute_large_rows() when no product uses O and P.
template <int kFragments>
__device__ __forceinline__ bool softmax_with_old_max(float (&rS)[kFragments][4], RowState& row,
                                                     float (&tile_sum)[2], float scale_log2) {
  exponentials(rS, scale_log2, row.max, tile_sum);
  const bool is_large = !(tile_sum[0] <= kMost && tile_sum[1] <= kMost);  // or not a number
  if (__any_sync(0xffffffffu, is_large)) return true;
#pragma unroll
  for (int r = 0; r < 2; ++r) row.sum[r] += tile_sum[r];
  return false;
}

// O = o_scale · O
template <int kFragments>
__device__ __forceinline__ void rescale_rows(float (&rO)[kFragments][4],
                                             const float (&o_scale)[2]) {
#pragma unroll
  for (auto& o : rO) {
#pragma unroll
    for (int e = 0; e < MmaAccumulator::kElements; ++e) o[e] *= o_scale[e / 2];
  }
}

// Rounds P to the left operands of P V: the same lanes hold the same elements. Until
// wgmma_wait<0>() a product reads the previous P in these registers. opaque() is a volatile asm
// statement, as the wait is, and the compiler keeps their order: no rounding moves above it.
template <class T, int kOperands, int kFragments>
__device__ __forceinline__ void pack_operands(MmaA::Registers (&rP)[kOperands],
                                              const float (&rS)[kFragments][4]) {
#pragma unroll
  for (int k = 0; k < kOperands; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const auto& s = rS[2 * k + e / 2];
      rP[k][e] = pack<T>(opaque(s[e % 2 * 2]), opaque(s[e % 2 * 2 + 1]));
    }
  }
}

// S = Q_i K_jᵀ of one warp, its 16 queries from q_row on, by mma.sync: wgmma would need four warps.
template <class T, class QTile, class KTile, int kFragments>
__device__ __forceinline__ void scores_of_warp(float (&rS)[kFragments][4], QTile& sQ, int q_row,
                                               KTile& sK, int lane) {
  const Chunks lane_Q(sQ, q_row + LoadA::row(lane), LoadA::col(lane));
  const Chunks lane_K(sK, LoadBTransposed::row(lane), LoadBTransposed::col(lane));
#pragma unroll
  for (auto& s : rS) s[0] = s[1] = s[2] = s[3] = 0.f;
#pragma unroll 1
  for (int k = 0; k < QTile::kPanels * QTile::kPanelCols / kMmaK; ++k) {
    MmaA::Registers rQ;
    ptx::ldmatrix_x4(rQ, lane_Q(0, k));
#pragma unroll
    for (int n = 0; n < kFragments / 2; ++n) {
      std::uint32_t rK[4];  // of 16 keys: a row of sK is a column of Kᵀ
      ptx::ldmatrix_x4(rK, lane_K(n, k));
      ptx::mma_m16n8k16<T>(rS[2 * n], rQ, {rK[0], rK[1]});
      ptx::mma_m16n8k16<T>(rS[2 * n + 1], rQ, {rK[2], rK[3]});
    }
  }
  // A copy may replace K_j, and at the end O replaces Q.
  ptx::fence_proxy_async();  // A copy comes after this lane's reads,
  __syncwarp();              // and all lanes' come before lane 0's arrival, and before O.
}

// Computes P again, now with the tile's maximum, in those rows of this warp whose terms were too
// large, and rescales O and l there. P has overwritten S, so S is computed again, too. The other
// rows keep their P: no row's bits depend on another row. No product may be using O or P.
template <class T, class QTile, class KTile, int kFragments, int kOutputs, int kOperands>
__device__ __forceinline__ void recompute_large_rows(float (&rS)[kFragments][4],
                                                     float (&rO)[kOutputs][4],
                                                     MmaA::Registers (&rP)[kOperands],
                                                     RowState& row, const float (&tile_sum)[2],
                                                     float scale_log2, QTile& sQ, int q_row,
                                                     KTile& sK, int lane) {
  scores_of_warp<T>(rS, sQ, q_row, sK, lane);  // ends with a proxy fence: a copy may replace K_j

  // Take the tile's maximum in rows in which a lane has found too large a sum.
  float tile_max[2], o_scale[2], max[2];
  tile_maxima(rS, scale_log2, tile_max);
  bool is_large[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    is_large[r] = quad_max(tile_sum[r] <= kMost ? 0.f : 1.f) != 0.f;
    o_scale[r] = is_large[r] ? grow(row, r, tile_max[r]) : 1.f;
    max[r] = finite_max(row.max[r]);
  }
  rescale_rows(rO, o_scale);

  // Replace their terms.
  float sum[2];
  exponentials(rS, scale_log2, max, sum);
#pragma unroll
  for (int r = 0; r < 2; ++r) row.sum[r] += is_large[r] ? sum[r] : tile_sum[r];
#pragma unroll
  for (int k = 0; k < kOperands; ++k) {
    MmaA::Registers rP_large;
    to_operand<T>(rP_large, rS[2 * k], rS[2 * k + 1]);
#pragma unroll
    for (int e = 0; e < 4; ++e) rP[k][e] = is_large[e % 2] ? rP_large[e] : rP[k][e];
  }
}

}  // namespace cuflash::ping_pong
