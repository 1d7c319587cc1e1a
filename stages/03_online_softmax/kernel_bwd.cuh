// 03_online_softmax, backward: two kernels that compute P again, tile by tile, from Q, K and the
// LSE. Each output has one owner, so there are no atomics and every run gives the same bits.
#pragma once

#include <cmath>

#include "device/index.h"
#include "device/shared_memory.h"
#include "device/tensor.h"
#include "device/tiles.h"
#include "device/warp.h"
#include "kernel.cuh"

namespace cuflash::online_softmax {

// A block owns kOwned rows (queries for dQ, keys for dK and dV) and loads the others tile by tile.
// For each owned row, a warp computes a row of P; each lane does so for one streamed row.
template <class T, int kHeadDim>
struct BackwardConfig : Config<T> {
  static constexpr int kOwned = kHeadDim * sizeof(T) > 256 ? 16 : 32;  // 64 KB do not hold 32.
  static constexpr int kStreamed = 32;
  static_assert(kStreamed == 32, "kStreamed is 32: a lane of a warp for each row");
  static_assert(kOwned % Config<T>::kWarps == 0, "kOwned is a multiple of 8: rows for each warp");
};

template <class T, int kHeadDim>
struct QueryStorage {
  using C = BackwardConfig<T, kHeadDim>;
  T sQ[C::kOwned][kHeadDim], sdO[C::kOwned][kHeadDim];
  T sK[C::kStreamed][kHeadDim + C::kPad], sV[C::kStreamed][kHeadDim + C::kPad];
  float sdS[C::kOwned][C::kStreamed];
};

template <class T, int kHeadDim>
struct KeyValueStorage {
  using C = BackwardConfig<T, kHeadDim>;
  T sK[C::kOwned][kHeadDim], sV[C::kOwned][kHeadDim];
  T sQ[C::kStreamed][kHeadDim + C::kPad], sdO[C::kStreamed][kHeadDim + C::kPad];
  float sP[C::kOwned][C::kStreamed], sdS[C::kOwned][C::kStreamed];
};

// delta = rowsum(dO ∘ O), then dQ = softmax_scale · dS K. One block computes kOwned rows of both.
template <class T, int kHeadDim>
__global__ void query_gradient(BackwardParams p, float* delta) {
  using C = BackwardConfig<T, kHeadDim>;
  constexpr int kRows = C::kOwned / C::kWarps, kColumns = kHeadDim / 32;
  auto& [sQ, sdO, sK, sV, sdS] = shared_storage<QueryStorage<T, kHeadDim>>();

  // Find this block's head, queries and tensors.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, block, unused] =
      unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kOwned), 1);
  const int i0 = block * C::kOwned;  // [FA2 Alg.2 l.1-2, 8]
  const Sequence seq = sequence(p, b);
  const auto gQ = rows<const T>(p.q, b, h), gO = rows<const T>(p.o, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h)), gV = rows<const T>(p.v, b, kv_head(p, h));
  const auto gdO = rows<const T>(p.d_o, b, h);

  // [FA2 Alg.2 l.9]  load Q_i, dO_i    // each lane loads its part of O_i and L_i below
  load_tile<kHeadDim>(sQ, gQ, i0, seq.num_queries, thread);
  load_tile<kHeadDim>(sdO, gdO, i0, seq.num_queries, thread);
  __syncthreads();  // sdO is written before any thread reads it.

  // [FA2 Alg.2 l.4]  delta = rowsum(dO ∘ O)    // for itself and for key_value_gradient
  float row_delta[kRows], row_lse[kRows];
#pragma unroll
  for (int n = 0; n < kRows; ++n) {
    const int r = warp + n * C::kWarps, i = i0 + r;
    float sum = 0.f;
    for (int d = lane; d < kHeadDim && i < seq.num_queries; d += 32) {
      sum += float(sdO[r][d]) * float(gO(i, d));
    }
    // Keep delta and LSE of the row; write delta for the other kernel.
    row_delta[n] = warp_sum(sum);
    row_lse[n] = i < seq.num_queries ? p.lse[row_index(p, b, h, i)] : 0.f;
    if (lane == 0 && i < seq.num_queries) delta[row_index(p, b, h, i)] = row_delta[n];
  }
  if (p.dq.data == nullptr) return;

  // Loop over the keys, tile by tile.
  float rdQ[kRows][kColumns] = {};                                   // [FA2 Alg.2 l.3]
  for (const int j0 : kv_tiles<C::kStreamed>(seq, i0, C::kOwned)) {  // [FA2 Alg.2 l.5, 19]
    // [FA2 Alg.2 l.6]  load K_j, V_j
    load_tile<kHeadDim>(sK, gK, j0, seq.num_keys, thread);
    load_tile<kHeadDim>(sV, gV, j0, seq.num_keys, thread);
    __syncthreads();  // sK and sV are written before any thread reads them.

    // Compute P and dS for this lane's key.
    const int j = j0 + lane;
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const int r = warp + n * C::kWarps, i = i0 + r;
      // [FA2 Alg.2 l.10, 13]  S = Q_i K_jᵀ, dP = dO_i V_jᵀ    // this lane's key
      float s = 0.f, dp = 0.f;
      for (int d = 0; d < kHeadDim; ++d) {
        s += float(sQ[r][d]) * float(sK[lane][d]);
        dp += float(sdO[r][d]) * float(sV[lane][d]);
      }
      // [FA2 Alg.2 l.11, 14]  P = exp(S − LSE), dS = P ∘ (dP − delta)
      const bool seen = i < seq.num_queries && j < seq.num_keys && visible(seq, i, j);
      const float prob = seen ? expf(s * p.softmax_scale - row_lse[n]) : 0.f;
      sdS[r][lane] = seen ? prob * (dp - row_delta[n]) : 0.f;
    }
    __syncwarp();  // The warp's rows of sdS are written before other lanes read them.

    // [FA2 Alg.2 l.15]  dQ = dQ + dS K_j
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      for (int c = 0; c < C::kStreamed; ++c) {
        const float ds = sdS[warp + n * C::kWarps][c];
#pragma unroll
        for (int k = 0; k < kColumns; ++k) rdQ[n][k] += ds * float(sK[c][lane + 32 * k]);
      }
    }
    __syncthreads();  // All have read sK and sV, and the warp its sdS, before they are overwritten.
  }

  // [FA2 Alg.2 l.15], second half  write dQ_i
  const auto gdQ = rows<T>(p.dq, b, h);
#pragma unroll
  for (int n = 0; n < kRows; ++n) {
    const int i = i0 + warp + n * C::kWarps;
    if (i >= seq.num_queries) continue;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) gdQ(i, lane + 32 * k) = T(rdQ[n][k] * p.softmax_scale);
  }
}  // [FA2 Alg.2 l.17, 20]

// dK = softmax_scale · dSᵀ Q and dV = Pᵀ dO, summed over the query heads that share the KV head.
// One block computes kOwned rows of both.
template <class T, int kHeadDim>
__global__ void key_value_gradient(BackwardParams p, const float* delta) {
  using C = BackwardConfig<T, kHeadDim>;
  constexpr int kRows = C::kOwned / C::kWarps, kColumns = kHeadDim / 32;
  auto& [sK, sV, sQ, sdO, sP, sdS] = shared_storage<KeyValueStorage<T, kHeadDim>>();

  // Find this block's KV head and keys.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h_kv, block, unused] =
      unravel(blockIdx.x, p.heads_kv, num_tiles(p.seq_kv, C::kOwned), 1);
  const int j0 = block * C::kOwned, group = p.heads_q / p.heads_kv;  // [FA2 Alg.2 l.1-3, 5]
  const Sequence seq = sequence(p, b);

  // [FA2 Alg.2 l.6-7]  load K_j, V_j; dK = 0, dV = 0
  load_tile<kHeadDim>(sK, rows<const T>(p.k, b, h_kv), j0, seq.num_keys, thread);
  load_tile<kHeadDim>(sV, rows<const T>(p.v, b, h_kv), j0, seq.num_keys, thread);
  float rdK[kRows][kColumns] = {}, rdV[kRows][kColumns] = {};

  // Loop over the queries of each head that shares the KV head.
  for (int h = h_kv * group; h < (h_kv + 1) * group; ++h) {
    const auto gQ = rows<const T>(p.q, b, h), gdO = rows<const T>(p.d_o, b, h);
    for (const int i0 : q_tiles<C::kStreamed>(seq, j0, C::kOwned)) {  // [FA2 Alg.2 l.8, 17]
      // [FA2 Alg.2 l.9]  load Q_i, dO_i, L_i, delta_i
      load_tile<kHeadDim>(sQ, gQ, i0, seq.num_queries, thread);
      load_tile<kHeadDim>(sdO, gdO, i0, seq.num_queries, thread);
      const int i = i0 + lane;  // this lane's query
      const float row_lse = i < seq.num_queries ? p.lse[row_index(p, b, h, i)] : 0.f;
      const float row_delta = i < seq.num_queries ? delta[row_index(p, b, h, i)] : 0.f;
      __syncthreads();  // All four tiles are written before any thread reads them.

      // Compute P and dS for this lane's query.
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        const int r = warp + n * C::kWarps, j = j0 + r;
        // [FA2 Alg.2 l.10, 13]  S = Q_i K_jᵀ, dP = dO_i V_jᵀ    // columns, this lane's query
        float s = 0.f, dp = 0.f;
        for (int d = 0; d < kHeadDim; ++d) {
          s += float(sQ[lane][d]) * float(sK[r][d]);
          dp += float(sdO[lane][d]) * float(sV[r][d]);
        }
        // [FA2 Alg.2 l.11, 14]  P = exp(S − LSE), dS = P ∘ (dP − delta)
        const bool seen = i < seq.num_queries && j < seq.num_keys && visible(seq, i, j);
        const float prob = seen ? expf(s * p.softmax_scale - row_lse) : 0.f;
        sP[r][lane] = prob;
        sdS[r][lane] = seen ? prob * (dp - row_delta) : 0.f;
      }
      __syncwarp();  // The warp's rows of sP and sdS are written before other lanes read them.

      // [FA2 Alg.2 l.12, 16]  dV = dV + Pᵀ dO_i, dK = dK + dSᵀ Q_i
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        for (int c = 0; c < C::kStreamed; ++c) {
          const float prob = sP[warp + n * C::kWarps][c], ds = sdS[warp + n * C::kWarps][c];
#pragma unroll
          for (int k = 0; k < kColumns; ++k) {
            rdV[n][k] += prob * float(sdO[c][lane + 32 * k]);
            rdK[n][k] += ds * float(sQ[c][lane + 32 * k]);
          }
        }
      }
      __syncthreads();  // All have read sQ, sdO, sP and sdS before they are overwritten.
    }
  }

  // [FA2 Alg.2 l.18]  write dK_j, dV_j
#pragma unroll
  for (int n = 0; n < kRows; ++n) {
    const int j = j0 + warp + n * C::kWarps;
    if (j >= seq.num_keys) continue;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      const int d = lane + 32 * k;
      if (p.dk.data != nullptr) rows<T>(p.dk, b, h_kv)(j, d) = T(rdK[n][k] * p.softmax_scale);
      if (p.dv.data != nullptr) rows<T>(p.dv, b, h_kv)(j, d) = T(rdV[n][k]);
    }
  }
}  // [FA2 Alg.2 l.19-20]

}  // namespace cuflash::online_softmax
