// 03_online_softmax, forward: one fused kernel. The softmax is computed tile by tile, so S and P
// never leave the chip.
#pragma once

#include <cmath>

#include "device/index.h"
#include "device/shared_memory.h"
#include "device/tensor.h"
#include "device/tiles.h"
#include "device/warp.h"

namespace cuflash::online_softmax {

template <class T>
struct Config {
  static constexpr int kBlockQ = 32;   // queries that a block computes
  static constexpr int kBlockKV = 32;  // keys of one tile
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kPad = 4 / sizeof(T);  // One word spreads a column over all 32 banks.
  static_assert(kBlockKV == 32, "kBlockKV is 32: a lane of a warp for each key");
  static_assert(kBlockQ % kWarps == 0, "kBlockQ is a multiple of 8: equally many rows per warp");
};

template <class T, int kHeadDim>
struct SharedStorage {
  using C = Config<T>;
  T sQ[C::kBlockQ][kHeadDim];
  T sK[C::kBlockKV][kHeadDim + C::kPad];
  float sP[C::kBlockQ][C::kBlockKV];
  T sV[C::kBlockKV][kHeadDim];
};

// Copies the rows [first, first + kRows) of a head into a tile. Rows past the end become zeros.
template <int kHeadDim, class T, int kRows, int kStride>
__device__ void load_tile(T (&tile)[kRows][kStride], Rows<const T> g, int first, int num_rows,
                          int thread) {
  for (int n = thread; n < kRows * kHeadDim; n += Config<T>::kThreads) {
    const int r = n / kHeadDim, d = n % kHeadDim;
    tile[r][d] = first + r < num_rows ? g(first + r, d) : T(0.f);
  }
}

// O = softmax(softmax_scale · Q Kᵀ) V. One block computes kBlockQ rows of O. A warp computes
// every 8th of them, and a lane holds every 32nd column.
template <class T, int kHeadDim>
__global__ void attention(ForwardParams p) {
  using C = Config<T>;
  constexpr int kRows = C::kBlockQ / C::kWarps, kColumns = kHeadDim / 32;
  auto& [sQ, sK, sP, sV] = shared_storage<SharedStorage<T, kHeadDim>>();

  // Find this block's head, queries and tensors.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, block, unused] =
      unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kBlockQ), 1);
  const int i0 = block * C::kBlockQ;  // [FA2 Alg.1 l.1-3]
  const Sequence seq = sequence(p, b);
  const auto gQ = rows<const T>(p.q, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h));
  const auto gV = rows<const T>(p.v, b, kv_head(p, h));
  const auto gO = rows<T>(p.o, b, h);

  // [FA2 Alg.1 l.4-5]  load Q_i; O = 0, l = 0, m = -inf
  load_tile<kHeadDim>(sQ, gQ, i0, seq.num_queries, thread);
  float rO[kRows][kColumns] = {};
  float row_max[kRows], row_sum[kRows] = {};
  for (float& m : row_max) m = -INFINITY;

  for (const int j0 : kv_tiles<C::kBlockKV>(seq, i0, C::kBlockQ)) {  // [FA2 Alg.1 l.6, 11]
    // [FA2 Alg.1 l.7]  load K_j, V_j
    load_tile<kHeadDim>(sK, gK, j0, seq.num_keys, thread);
    load_tile<kHeadDim>(sV, gV, j0, seq.num_keys, thread);
    __syncthreads();  // sQ, sK and sV are written before any thread reads them.

    // [FA2 Alg.1 l.8]  S = softmax_scale · Q_i K_jᵀ    // a row for each n, this lane's key
    const int j = j0 + lane;
    float rS[kRows];
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const int r = warp + n * C::kWarps;
      float s = 0.f;
      for (int d = 0; d < kHeadDim; ++d) {
        s += float(sQ[r][d]) * float(sK[lane][d]);
      }
      // Scale the score, and mask it.
      rS[n] = j < seq.num_keys && visible(seq, i0 + r, j) ? s * p.softmax_scale : -INFINITY;
    }

    // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      // Find the row's new maximum, and the factor that corrects the old sums.
      const float new_max = fmaxf(row_max[n], warp_max(rS[n]));
      const float finite_max = new_max == -INFINITY ? 0.f : new_max;  // No key seen yet.
      const float o_scale = expf(row_max[n] - finite_max);
      // Compute this lane's weight, and rescale the row's sums.
      const float prob = expf(rS[n] - finite_max);
      row_max[n] = new_max;
      row_sum[n] = row_sum[n] * o_scale + warp_sum(prob);
#pragma unroll
      for (int k = 0; k < kColumns; ++k) rO[n][k] *= o_scale;  // [FA2 Alg.1 l.10], first half
      sP[warp + n * C::kWarps][lane] = prob;
    }
    __syncwarp();  // The warp's rows of sP are written before other lanes read them.

    // [FA2 Alg.1 l.10], second half  O = O + P V_j
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      for (int c = 0; c < C::kBlockKV; ++c) {
        const float prob = sP[warp + n * C::kWarps][c];
#pragma unroll
        for (int k = 0; k < kColumns; ++k) rO[n][k] += prob * float(sV[c][lane + 32 * k]);
      }
    }
    __syncthreads();  // All have read sK and sV, and the warp its sP, before they are overwritten.
  }

  // [FA2 Alg.1 l.12, 14]  O = O / l, LSE = m + ln l
#pragma unroll
  for (int n = 0; n < kRows; ++n) {
    const int i = i0 + warp + n * C::kWarps;
    if (i >= seq.num_queries) continue;
    // Write the row; a row that has seen no key is 0.
    const float inverse = row_sum[n] > 0.f ? 1.f / row_sum[n] : 0.f;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) gO(i, lane + 32 * k) = T(rO[n][k] * inverse);
    if (lane == 0 && p.lse != nullptr) {
      p.lse[row_index(p, b, h, i)] = row_max[n] + logf(row_sum[n]);  // [FA2 Alg.1 l.13, 15]
    }
  }
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::online_softmax
