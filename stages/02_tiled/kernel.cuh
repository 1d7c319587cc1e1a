// 02_tiled, forward: the two products work on tiles in shared memory. S and P are still whole
// matrices in global memory.
#pragma once

#include <cmath>

#include "device/index.h"
#include "device/shared_memory.h"
#include "device/tensor.h"
#include "device/tiles.h"

namespace cuflash::tiled {

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
struct ScoresStorage {
  using C = Config<T>;
  T sQ[C::kBlockQ][kHeadDim];
  T sK[C::kBlockKV][kHeadDim + C::kPad];
};

template <class T, int kHeadDim>
struct OutputStorage {
  using C = Config<T>;
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

// S = softmax_scale · Q Kᵀ. One block computes kBlockQ rows of S, one tile of keys after the other.
template <class T, int kHeadDim>
__global__ void scores(ForwardParams p, float* S) {
  using C = Config<T>;
  auto& [sQ, sK] = shared_storage<ScoresStorage<T, kHeadDim>>();
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, block, unused] =
      unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kBlockQ), 1);
  const int i0 = block * C::kBlockQ;
  const Sequence seq = sequence(p, b);
  const auto gQ = rows<const T>(p.q, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h));

  load_tile<kHeadDim>(sQ, gQ, i0, seq.num_queries, thread);
  for (const int j0 : kv_tiles<C::kBlockKV>(seq, i0, C::kBlockQ)) {
    load_tile<kHeadDim>(sK, gK, j0, seq.num_keys, thread);
    __syncthreads();  // sQ and sK are written before any thread reads them.

    const int j = j0 + lane;
    for (int r = warp; r < C::kBlockQ; r += C::kWarps) {
      const int i = i0 + r;
      float s = 0.f;
      for (int d = 0; d < kHeadDim; ++d) {
        s += float(sQ[r][d]) * float(sK[lane][d]);
      }
      if (i < seq.num_queries && j < seq.num_keys) {
        S[row_index(p, b, h, i) * p.seq_kv + j] =
            visible(seq, i, j) ? s * p.softmax_scale : -INFINITY;
      }
    }
    __syncthreads();  // All have read sK before the next tile overwrites it.
  }
}

// P = softmax(S), in place. One thread computes one row, in three loops: maximum, sum, quotient.
static __global__ void softmax(ForwardParams p, float* S, std::int64_t count) {
  const std::int64_t row = thread_index();
  if (row >= count) return;
  const auto [b, h, i, unused] = unravel(row, p.heads_q, p.seq_q, 1);
  const Sequence seq = sequence(p, b);
  const Range keys = visible_keys(seq, i, i + 1);
  float* s = S + row * p.seq_kv;
  float row_max = -INFINITY;
  for (int j = keys.begin; j < keys.end; ++j) row_max = fmaxf(row_max, s[j]);
  if (row_max == -INFINITY) row_max = 0.f;  // A row that sees no key: every exp below is 0.
  float row_sum = 0.f;
  for (int j = keys.begin; j < keys.end; ++j) row_sum += expf(s[j] - row_max);
  const float inverse = row_sum > 0.f ? 1.f / row_sum : 0.f;
  for (int j = keys.begin; j < keys.end; ++j) s[j] = expf(s[j] - row_max) * inverse;
  if (p.lse != nullptr) p.lse[row] = row_max + logf(row_sum);
}

// O = P V. One block computes kBlockQ rows of O; a lane holds every 32nd column of its warp's rows.
template <class T, int kHeadDim>
__global__ void output(ForwardParams p, const float* P) {
  using C = Config<T>;
  constexpr int kRows = C::kBlockQ / C::kWarps, kColumns = kHeadDim / 32;
  auto& [sP, sV] = shared_storage<OutputStorage<T, kHeadDim>>();
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, block, unused] =
      unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kBlockQ), 1);
  const int i0 = block * C::kBlockQ;
  const Sequence seq = sequence(p, b);
  const auto gV = rows<const T>(p.v, b, kv_head(p, h));
  const auto gO = rows<T>(p.o, b, h);

  float rO[kRows][kColumns] = {};
  for (const int j0 : kv_tiles<C::kBlockKV>(seq, i0, C::kBlockQ)) {
    const int j = j0 + lane;
    for (int r = warp; r < C::kBlockQ; r += C::kWarps) {
      const int i = i0 + r;
      const bool seen = i < seq.num_queries && j < seq.num_keys && visible(seq, i, j);
      sP[r][lane] = seen ? P[row_index(p, b, h, i) * p.seq_kv + j] : 0.f;
    }
    load_tile<kHeadDim>(sV, gV, j0, seq.num_keys, thread);
    __syncthreads();  // sP and sV are written before any thread reads them.

#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      for (int c = 0; c < C::kBlockKV; ++c) {
        const float prob = sP[warp + n * C::kWarps][c];
#pragma unroll
        for (int k = 0; k < kColumns; ++k) rO[n][k] += prob * float(sV[c][lane + 32 * k]);
      }
    }
    __syncthreads();  // All have read sP and sV before the next tile overwrites them.
  }

#pragma unroll
  for (int n = 0; n < kRows; ++n) {
    const int i = i0 + warp + n * C::kWarps;
    if (i >= seq.num_queries) continue;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) gO(i, lane + 32 * k) = T(rO[n][k]);
  }
}

}  // namespace cuflash::tiled
