// 04_register_tiles, backward: the two kernels of 03, with all seven products from register tiles.
// Each output has one owner, so there are no atomics and every run gives the same bits.
#pragma once

#include <cmath>

#include "device/constants.h"
#include "device/index.h"
#include "device/shared_memory.h"
#include "device/tensor.h"
#include "device/tiles.h"
#include "device/vector.h"
#include "kernel.cuh"

namespace cuflash::register_tiles {

// A block owns kOwned rows (queries for dQ, keys for dK and dV) and streams tiles of the other
// rows past them. 64 KB hold four such tiles and one tile of P.
template <int kHeadDim>
struct BackwardConfig {
  static constexpr int kOwned = kHeadDim > 64 ? 32 : 64;
  static constexpr int kStreamed = kHeadDim > 64 ? 16 : 32;
  static constexpr int kThreads = kHeadDim > 64 ? 64 : 128;
  static constexpr int kBlocks = kHeadDim > 64 ? 4 : 2;  // minimum per SM
  // What a thread computes: kRows × kColumns of S and dP, and kRows × 4 kQuads of each gradient.
  static constexpr int kRows = kOwned / (kThreads / 8);
  static constexpr int kColumns = kStreamed / 8;
  static constexpr int kQuads = kHeadDim / 32;
  static constexpr int kPitch = kHeadDim + 4;    // as in the forward pass
  static constexpr int kPitchP = kStreamed + 8;  // the same, for sP and sdS
  static_assert(kOwned % 16 == 0, "kOwned is a multiple of 16");
  static_assert(kStreamed % 16 == 0, "kStreamed is a multiple of 16");
};

template <int kHeadDim>
struct QueryStorage {
  using C = BackwardConfig<kHeadDim>;
  float sQ[C::kOwned][C::kPitch], sdO[C::kOwned][C::kPitch];
  float sK[C::kStreamed][C::kPitch], sV[C::kStreamed][C::kPitch];
  float sdS[C::kOwned][C::kPitchP];
};

template <int kHeadDim>
struct KeyValueStorage {
  using C = BackwardConfig<kHeadDim>;
  float sK[C::kOwned][C::kPitch], sV[C::kOwned][C::kPitch];
  float sQ[C::kStreamed][C::kPitch], sdO[C::kStreamed][C::kPitch];
  float sP[C::kOwned][C::kPitchP];  // P, then dS: 64 KB hold no second such array
};

// The LSE of row i times log2 e; 0 past the last row, where dO is 0 and P adds nothing.
__device__ __forceinline__ float lse_log2(const BackwardParams& p, int b, int h, int i) {
  return i < sequence(p, b).num_queries ? p.lse[row_index(p, b, h, i)] * kLog2e : 0.f;
}

// delta = rowsum(dO ∘ O), then dQ = softmax_scale · dS K. One block computes kOwned rows of both.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads,
                                  BackwardConfig<kHeadDim>::kBlocks)
    query_gradient(BackwardParams p, float* delta) {
  using C = BackwardConfig<kHeadDim>;
  constexpr int kRows = C::kRows, kColumns = C::kColumns, kQuads = C::kQuads;
  auto& [sQ, sdO, sK, sV, sdS] = shared_storage<QueryStorage<kHeadDim>>();

  // Find this block's head, queries and tensors, and this thread's rows and columns.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int row = warp * 4 * kRows + row_group(lane), column = column_group(lane);
  const auto [b, h, block, unused] =
      unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kOwned), 1);
  const int i0 = block * C::kOwned;  // [FA2 Alg.2 l.1-2, 8]
  const Sequence seq = sequence(p, b);
  const auto gQ = rows<const T>(p.q, b, h), gO = rows<const T>(p.o, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h)), gV = rows<const T>(p.v, b, kv_head(p, h));
  const auto gdO = rows<const T>(p.d_o, b, h);
  const float scale_log2 = p.softmax_scale * kLog2e;

  // [FA2 Alg.2 l.4]  delta = rowsum(dO ∘ O)    // for itself and for key_value_gradient
  float row_delta[kRows], row_lse[kRows];
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const int i = i0 + row + 4 * m;
    float sum = 0.f;
    for (int d = 4 * column; d < kHeadDim && i < seq.num_queries; d += 32) {
      const float4 o = load4(&gO(i, d)), d_o = load4(&gdO(i, d));
      sum += d_o.x * o.x + d_o.y * o.y + d_o.z * o.z + d_o.w * o.w;
    }
    // Keep delta and LSE of the row; write delta for the other kernel.
    row_delta[m] = sum_over_row(sum);
    row_lse[m] = lse_log2(p, b, h, i);
    if (column == 0 && i < seq.num_queries) delta[row_index(p, b, h, i)] = row_delta[m];
  }
  if (p.dq.data == nullptr) return;

  // [FA2 Alg.2 l.9]  load Q_i, dO_i    // each lane has read its part of O_i and L_i
  load_tile<kHeadDim, C::kThreads>(sQ, gQ, i0, seq.num_queries, thread);
  load_tile<kHeadDim, C::kThreads>(sdO, gdO, i0, seq.num_queries, thread);

  // Stream the keys past the block's queries.
  float4 rdQ[kRows][kQuads] = {};                                    // [FA2 Alg.2 l.3]
  for (const int j0 : kv_tiles<C::kStreamed>(seq, i0, C::kOwned)) {  // [FA2 Alg.2 l.5, 19]
    // [FA2 Alg.2 l.6]  load K_j, V_j
    load_tile<kHeadDim, C::kThreads>(sK, gK, j0, seq.num_keys, thread);
    load_tile<kHeadDim, C::kThreads>(sV, gV, j0, seq.num_keys, thread);
    __syncthreads();  // All four tiles are written before any thread reads them.

    // [FA2 Alg.2 l.10, 13]  S = Q_i K_jᵀ, dP = dO_i V_jᵀ    // kRows × kColumns of each
    float rS[kRows][kColumns] = {}, rdP[kRows][kColumns] = {};
    add_a_bt<kHeadDim>(rS, sQ, sK, row, column);
    add_a_bt<kHeadDim>(rdP, sdO, sV, row, column);

    // [FA2 Alg.2 l.11, 14]  P = exp(S − LSE), dS = P ∘ (dP − delta)
    const bool whole = all_visible(seq, i0, C::kOwned, j0, C::kStreamed);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const int i = i0 + row + 4 * m, j = j0 + column + 8 * n;
        const bool seen = whole || (j < seq.num_keys && visible(seq, i, j));
        const float prob = seen ? exp2f(rS[m][n] * scale_log2 - row_lse[m]) : 0.f;
        sdS[row + 4 * m][column + 8 * n] = prob * (rdP[m][n] - row_delta[m]);
      }
    }
    __syncwarp();  // The warp's rows of sdS are written before other lanes read them.

    // [FA2 Alg.2 l.15]  dQ = dQ + dS K_j
    add_p_b(rdQ, sdS, sK, row, column);
    __syncthreads();  // sK, sV and the warp's sdS have been read before they are overwritten.
  }

  // [FA2 Alg.2 l.15], second half  write dQ_i
  const auto gdQ = rows<T>(p.dq, b, h);
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const int i = i0 + row + 4 * m;
    if (i >= seq.num_queries) continue;
#pragma unroll
    for (int k = 0; k < kQuads; ++k) {
      store4(&gdQ(i, 4 * column + 32 * k), scaled(p.softmax_scale, rdQ[m][k]));
    }
  }
}  // [FA2 Alg.2 l.17, 20]

// dK = softmax_scale · dSᵀ Q and dV = Pᵀ dO, summed over the query heads that share the KV head.
// One block computes kOwned rows of both.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads,
                                  BackwardConfig<kHeadDim>::kBlocks)
    key_value_gradient(BackwardParams p, const float* delta) {
  using C = BackwardConfig<kHeadDim>;
  constexpr int kRows = C::kRows, kColumns = C::kColumns, kQuads = C::kQuads;
  auto& [sK, sV, sQ, sdO, sP] = shared_storage<KeyValueStorage<kHeadDim>>();

  // Find this block's KV head and keys, and this thread's rows and columns.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int row = warp * 4 * kRows + row_group(lane), column = column_group(lane);
  const auto [b, h_kv, block, unused] =
      unravel(blockIdx.x, p.heads_kv, num_tiles(p.seq_kv, C::kOwned), 1);
  const int j0 = block * C::kOwned, group = p.heads_q / p.heads_kv;  // [FA2 Alg.2 l.1-3, 5]
  const Sequence seq = sequence(p, b);
  const float scale_log2 = p.softmax_scale * kLog2e;

  // [FA2 Alg.2 l.6-7]  load K_j, V_j; dK = 0, dV = 0
  load_tile<kHeadDim, C::kThreads>(sK, rows<const T>(p.k, b, h_kv), j0, seq.num_keys, thread);
  load_tile<kHeadDim, C::kThreads>(sV, rows<const T>(p.v, b, h_kv), j0, seq.num_keys, thread);
  float4 rdK[kRows][kQuads] = {}, rdV[kRows][kQuads] = {};

  // Stream the queries of each head that shares the KV head past the block's keys.
  for (int h = h_kv * group; h < (h_kv + 1) * group; ++h) {
    const auto gQ = rows<const T>(p.q, b, h), gdO = rows<const T>(p.d_o, b, h);
    for (const int i0 : q_tiles<C::kStreamed>(seq, j0, C::kOwned)) {  // [FA2 Alg.2 l.8, 17]
      // [FA2 Alg.2 l.9]  load Q_i, dO_i, L_i, delta_i
      load_tile<kHeadDim, C::kThreads>(sQ, gQ, i0, seq.num_queries, thread);
      load_tile<kHeadDim, C::kThreads>(sdO, gdO, i0, seq.num_queries, thread);
      float column_lse[kColumns], column_delta[kColumns];
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const int i = i0 + column + 8 * n;
        column_lse[n] = lse_log2(p, b, h, i);
        column_delta[n] = i < seq.num_queries ? delta[row_index(p, b, h, i)] : 0.f;
      }
      __syncthreads();  // All four tiles are written before any thread reads them.

      // [FA2 Alg.2 l.10, 13]  Sᵀ = K_j Q_iᵀ, dPᵀ = V_j dO_iᵀ    // a row for each key
      float rS[kRows][kColumns] = {}, rdP[kRows][kColumns] = {};
      add_a_bt<kHeadDim>(rS, sK, sQ, row, column);
      add_a_bt<kHeadDim>(rdP, sV, sdO, row, column);

      // [FA2 Alg.2 l.11, 14]  P = exp(S − LSE), dS = P ∘ (dP − delta)
      const bool whole = all_visible(seq, i0, C::kStreamed, j0, C::kOwned);
      float rdS[kRows][kColumns];
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          const int i = i0 + column + 8 * n, j = j0 + row + 4 * m;
          const bool seen = whole || (j < seq.num_keys && visible(seq, i, j));
          const float prob = seen ? exp2f(rS[m][n] * scale_log2 - column_lse[n]) : 0.f;
          rdS[m][n] = prob * (rdP[m][n] - column_delta[n]);
          sP[row + 4 * m][column + 8 * n] = prob;
        }
      }
      __syncwarp();  // The warp's rows of P are written before other lanes read them.

      // [FA2 Alg.2 l.12]  dV = dV + Pᵀ dO_i
      add_p_b(rdV, sP, sdO, row, column);
      __syncwarp();  // All lanes have read P before dS overwrites it.

      // Put dS in the place of P.
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) sP[row + 4 * m][column + 8 * n] = rdS[m][n];
      }
      __syncwarp();  // The warp's rows of dS are written before other lanes read them.

      // [FA2 Alg.2 l.16]  dK = dK + dSᵀ Q_i
      add_p_b(rdK, sP, sQ, row, column);
      __syncthreads();  // sQ, sdO and the warp's sP have been read before they are overwritten.
    }
  }

  // [FA2 Alg.2 l.18]  write dK_j, dV_j
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const int j = j0 + row + 4 * m;
    if (j >= seq.num_keys) continue;
#pragma unroll
    for (int k = 0; k < kQuads; ++k) {
      const int d = 4 * column + 32 * k;
      if (p.dk.data != nullptr) {
        store4(&rows<T>(p.dk, b, h_kv)(j, d), scaled(p.softmax_scale, rdK[m][k]));
      }
      if (p.dv.data != nullptr) store4(&rows<T>(p.dv, b, h_kv)(j, d), rdV[m][k]);
    }
  }
}  // [FA2 Alg.2 l.19-20]

}  // namespace cuflash::register_tiles
