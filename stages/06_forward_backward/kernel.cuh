// 06_forward_backward, forward: the kernel of 05.
#pragma once

#include <cmath>

#include "device/constants.h"
#include "device/copy.h"
#include "device/fragments.h"
#include "device/index.h"
#include "device/ptx/exp2.h"
#include "device/shared_memory.h"
#include "device/tensor.h"
#include "device/tensor_cores.h"
#include "device/tiles.h"
#include "device/vector.h"

namespace cuflash::forward_backward {

template <int kHeadDim>
struct Config {
  static constexpr int kBlockQ = 64;                        // queries that a block computes
  static constexpr int kBlockKV = kHeadDim > 64 ? 32 : 64;  // keys per tile
  static constexpr int kWarps = kBlockQ / kMma;             // a warp computes a strip of 16 rows
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kPad = 8;  // 16 more bytes per row: 8 rows of a fragment use all 32 banks.
  static_assert(kBlockQ % kMma == 0 && 128 % kBlockQ == 0, "kBlockQ is 16, 32, 64 or 128");
  static_assert(kBlockKV % kMma == 0 && 128 % kBlockKV == 0, "kBlockKV is 16, 32, 64 or 128");
  static_assert(kBlockQ <= kBlockKV * kHeadDim / 16, "kBlockQ is at most kBlockKV * kHeadDim / 16");
};

template <class T, int kHeadDim>
struct SharedStorage {
  using C = Config<kHeadDim>;
  alignas(128) T sQ[C::kBlockQ][kHeadDim + C::kPad];
  T sK[C::kBlockKV][kHeadDim + C::kPad];
  T sV[C::kBlockKV][kHeadDim + C::kPad];
  float sS[C::kWarps][kMma][C::kBlockKV + C::kPad];
  T sP[C::kWarps][kMma][C::kBlockKV + C::kPad];
  float s_scale[C::kWarps][kMma];
};

// Multiplies row r of each fragment by factor[r].
template <int kCount>
__device__ __forceinline__ void scale_rows(Accumulator (&fragments)[kCount], const float* factor) {
  const Accumulator factors = every_column(factor);
  for (Accumulator& fragment : fragments) {
#pragma unroll
    for (int e = 0; e < fragment.num_elements; ++e) fragment.x[e] *= factors.x[e];
  }
}

// O = softmax(softmax_scale · Q Kᵀ) V. One block computes kBlockQ rows of O, and each warp 16 of
// them. For the softmax, two lanes share a row.
template <class Element, int kHeadDim>
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads) attention(ForwardParams p) {
  using T = typename TensorCoreType<Element>::Type;
  using C = Config<kHeadDim>;
  constexpr int kSteps = kHeadDim / kMma, kKeySteps = C::kBlockKV / kMma;
  constexpr int kQuads = C::kBlockKV / 8;  // quads of scores that a lane holds
  auto& [sQ, sK, sV, all_S, all_P, all_scale] = shared_storage<SharedStorage<T, kHeadDim>>();

  // Find this block's head, queries and tensors, and this lane's row of S.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, block, unused] =
      unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kBlockQ), 1);
  const int i0 = block * C::kBlockQ;  // [FA2 Alg.1 l.1-3]
  const Sequence seq = sequence(p, b);
  const int r0 = warp * kMma;
  const auto gQ = rows<const T>(p.q, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h));
  const auto gV = rows<const T>(p.v, b, kv_head(p, h));
  const auto gO = rows<T>(p.o, b, h);
  auto& sS = all_S[warp];
  auto& sP = all_P[warp];
  auto& s_scale = all_scale[warp];
  const int row = lane / 2, column = lane % 2 * 4, i = i0 + r0 + row;  // of this lane, in S

  // [FA2 Alg.1 l.4-5]  load Q_i; O = 0, l = 0, m = -inf
  copy_tile<kHeadDim, C::kThreads>(sQ, gQ, i0, seq.num_queries, thread);
  Accumulator rO[kSteps];
  for (auto& o : rO) fill_fragment(o, 0.f);
  float row_max = -INFINITY, row_sum = 0.f;
  const float scale_log2 = p.softmax_scale * kLog2e;

  for (const int j0 : kv_tiles<C::kBlockKV>(seq, i0, C::kBlockQ)) {  // [FA2 Alg.1 l.6, 11]
    // [FA2 Alg.1 l.7]  load K_j, V_j
    copy_tile<kHeadDim, C::kThreads>(sK, gK, j0, seq.num_keys, thread);
    copy_tile<kHeadDim, C::kThreads>(sV, gV, j0, seq.num_keys, thread);
    __syncthreads();  // sQ, sK and sV are written before any warp reads them.

    // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // (16, kBlockKV) f32 per warp, in fragments, then in sS
    Accumulator rS[kKeySteps];
    for (auto& s : rS) fill_fragment(s, 0.f);
#pragma unroll 4
    for (int k = 0; k < kSteps; ++k) {
      MatrixA<T> rQ;
      load_matrix_sync(rQ, &sQ[r0][k * kMma], kHeadDim + C::kPad);
#pragma unroll
      for (int n = 0; n < kKeySteps; ++n) {
        MatrixB<T, ColMajor> rK;  // Kᵀ: a row of sK is a column of it
        load_matrix_sync(rK, &sK[n * kMma][k * kMma], kHeadDim + C::kPad);
        mma_sync(rS[n], rQ, rK, rS[n]);
      }
    }

    // Store S in rows, for the softmax.
#pragma unroll
    for (int n = 0; n < kKeySteps; ++n) {
      store_matrix_sync(&sS[0][n * kMma], rS[n], C::kBlockKV + C::kPad,
                        nvcuda::wmma::mem_row_major);
    }
    __syncwarp();  // The warp's S is written before its lanes read the rows.

    // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
    alignas(16) float lane_S[kQuads][4];  // this lane's part of its row
    float new_max = row_max;
#pragma unroll
    for (int n = 0; n < kQuads; ++n) {
      *reinterpret_cast<float4*>(lane_S[n]) = load4(&sS[row][column + 8 * n]);
    }
    // Mask the scores, where the tile needs it.
    if (!all_visible(seq, i0, C::kBlockQ, j0, C::kBlockKV)) {
#pragma unroll
      for (int n = 0; n < 4 * kQuads; ++n) {
        const int j = j0 + column + n / 4 * 8 + n % 4;
        if (j >= seq.num_keys || !visible(seq, i, j)) lane_S[n / 4][n % 4] = -INFINITY;
      }
    }
    // Find the row's new maximum, and the factor that corrects the old sums.
    for (const auto& quad : lane_S) {
      for (const float s : quad) new_max = fmaxf(new_max, s);
    }
    new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffffu, new_max, 1));
    const float finite_max = new_max == -INFINITY ? 0.f : new_max;         // No key seen yet.
    const float o_scale = ptx::exp2((row_max - finite_max) * scale_log2);  // 1 if max is unchanged
    // Compute the weights P and store them for the next product.
    float sum = 0.f;
#pragma unroll
    for (int n = 0; n < kQuads; ++n) {
      alignas(16) float lane_P[4];
      for (int e = 0; e < 4; ++e) {
        lane_P[e] = ptx::exp2(lane_S[n][e] * scale_log2 - finite_max * scale_log2);
        sum += lane_P[e];
      }
      store4(&sP[row][column + 8 * n], *reinterpret_cast<const float4*>(lane_P));
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    row_sum = row_sum * o_scale + sum;
    row_max = new_max;
    if (column == 0) s_scale[row] = o_scale;
    __syncwarp();  // The warp's P and s_scale are written before fragments are loaded from them.

    // [FA2 Alg.1 l.10]  O = o_scale · O + P V_j    // (16, kHeadDim) f32 per warp, in fragments
    scale_rows(rO, s_scale);
#pragma unroll
    for (int k = 0; k < kKeySteps; ++k) {
      MatrixA<T> rP;
      load_matrix_sync(rP, &sP[0][k * kMma], C::kBlockKV + C::kPad);
#pragma unroll
      for (int n = 0; n < kSteps; ++n) {
        MatrixB<T, RowMajor> rV;
        load_matrix_sync(rV, &sV[k * kMma][n * kMma], kHeadDim + C::kPad);
        mma_sync(rO[n], rP, rV, rO[n]);
      }
    }
    __syncthreads();  // sK, sV and the warp's sP have been read before they are overwritten.
  }

  // [FA2 Alg.1 l.12]  O = O / l
  if (column == 0) s_scale[row] = row_sum > 0.f ? 1.f / row_sum : 0.f;
  if (column == 0 && i < seq.num_queries && p.lse != nullptr) {
    p.lse[row_index(p, b, h, i)] =
        row_max * p.softmax_scale + logf(row_sum);  // [FA2 Alg.1 l.13, 15]
  }
  __syncwarp();  // s_scale is written before a fragment is loaded from it.
  scale_rows(rO, s_scale);

  // [FA2 Alg.1 l.14]  write O_i, through the warp's sS, as many columns at a time as fit
  constexpr int kWidth = C::kBlockKV < kHeadDim ? C::kBlockKV : kHeadDim;
  for (int d0 = 0; d0 < kHeadDim; d0 += kWidth) {
#pragma unroll
    for (int n = 0; n < kWidth / kMma; ++n) {
      store_matrix_sync(&sS[0][n * kMma], rO[d0 / kMma + n], C::kBlockKV + C::kPad,
                        nvcuda::wmma::mem_row_major);
    }
    __syncwarp();  // The columns are in sS before the lanes read rows.
#pragma unroll
    for (int n = lane; n < kMma * kWidth / 4; n += 32) {
      const int r = n / (kWidth / 4), d = n % (kWidth / 4) * 4;
      if (i0 + r0 + r < seq.num_queries) store4(&gO(i0 + r0 + r, d0 + d), load4(&sS[r][d]));
    }
    __syncwarp();  // All lanes have read the columns before the next ones are written.
  }
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::forward_backward
