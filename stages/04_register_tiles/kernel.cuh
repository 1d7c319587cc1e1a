// 04_register_tiles, forward: each thread computes a small tile of S and another of O, in
// registers. A number loaded from shared memory then serves several multiply-adds instead of one.
#pragma once

#include <cmath>

#include "device/constants.h"
#include "device/index.h"
#include "device/shared_memory.h"
#include "device/tensor.h"
#include "device/tiles.h"
#include "device/vector.h"

namespace cuflash::register_tiles {

template <int kHeadDim>
struct Config {
  static constexpr int kBlockQ = 64;                        // queries that a block computes
  static constexpr int kBlockKV = kHeadDim > 64 ? 32 : 64;  // keys per tile; 64 KB hold no more
  static constexpr int kThreads = 128;
  static constexpr int kBlocks = 3;  // minimum per SM, so that a thread may use 168 registers
  // What a thread computes: kRows × kColumns of S, and kRows × 4 kQuads of O.
  static constexpr int kRows = kBlockQ / (kThreads / 8);
  static constexpr int kColumns = kBlockKV / 8;
  static constexpr int kQuads = kHeadDim / 32;
  // Floats from one row to the next. Four floats from each of 8 rows use all 32 banks, and so do 8
  // floats from each of 4 rows of sP.
  static constexpr int kPitch = kHeadDim + 4;
  static constexpr int kPitchP = kBlockKV + 8;
  static_assert(kBlockQ % 16 == 0, "kBlockQ is a multiple of 16");
  static_assert(kBlockKV % 16 == 0, "kBlockKV is a multiple of 16");
};

template <int kHeadDim>
struct SharedStorage {
  using C = Config<kHeadDim>;
  float sQ[C::kBlockQ][C::kPitch];
  float sKV[C::kBlockKV][C::kPitch];  // K_j, then V_j
  float sP[C::kBlockQ][C::kPitchP];
};

// Copies the rows [first, first + kRows) of a head into a tile of floats, four elements at a time.
// Rows past the end become zeros.
template <int kHeadDim, int kThreads, class T, int kRows, int kPitch>
__device__ __forceinline__ void load_tile(float (&tile)[kRows][kPitch], Rows<const T> g, int first,
                                          int num_rows, int thread) {
  constexpr int kPerRow = kHeadDim / 4, kAtOnce = kThreads / kPerRow;  // in threads; in rows
  static_assert(kRows % kAtOnce == 0, "each thread copies as much as the others");
  const int r0 = thread / kPerRow, d = thread % kPerRow * 4;
  const T* from = &g(first + r0, d);
#pragma unroll
  for (int r = r0; r < r0 + kRows; r += kAtOnce, from += kAtOnce * g.row_stride) {
    store4(&tile[r][d], first + r < num_rows ? load4(from) : float4{});
  }
}

// The lanes of a warp form 4 row groups and 8 column groups. Lanes that differ only in bit 0 share
// a row group, and lanes that differ only in bit 1 share a column group. So each lane loads the
// same address as a partner, and shared memory serves 16 lanes per wavefront instead of 8.
__device__ __forceinline__ int row_group(int lane) { return (lane >> 1 & 1) + (lane >> 4) * 2; }
__device__ __forceinline__ int column_group(int lane) { return (lane & 1) + (lane >> 2 & 3) * 2; }

// The maximum, or the sum, over the 8 lanes of a row group. Their numbers differ in bits 0, 2
// and 3.
__device__ __forceinline__ float max_over_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 8));
}
__device__ __forceinline__ float sum_over_row(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  x += __shfl_xor_sync(0xffffffffu, x, 4);
  return x + __shfl_xor_sync(0xffffffffu, x, 8);
}

// rS += A Bᵀ: this thread's rows of A, every 4th from `row`, and rows of B, every 8th from
// `column`.
template <int kHeadDim, int kRows, int kColumns, int kRowsA, int kRowsB, int kPitch>
__device__ __forceinline__ void add_a_bt(float (&rS)[kRows][kColumns],
                                         const float (&sA)[kRowsA][kPitch],
                                         const float (&sB)[kRowsB][kPitch], int row, int column) {
#pragma unroll 4
  for (int d = 0; d < kHeadDim; d += 4) {
    float4 a[kRows], b[kColumns];
#pragma unroll
    for (int m = 0; m < kRows; ++m) a[m] = load4(&sA[row + 4 * m][d]);
#pragma unroll
    for (int n = 0; n < kColumns; ++n) b[n] = load4(&sB[column + 8 * n][d]);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        rS[m][n] += a[m].x * b[n].x;
        rS[m][n] += a[m].y * b[n].y;
        rS[m][n] += a[m].z * b[n].z;
        rS[m][n] += a[m].w * b[n].w;
      }
    }
  }
}

__device__ __forceinline__ void add_scaled(float4& sum, float a, const float4& x) {
  sum.x += a * x.x;
  sum.y += a * x.y;
  sum.z += a * x.z;
  sum.w += a * x.w;
}

__device__ __forceinline__ float4 scaled(float a, const float4& x) {
  return {a * x.x, a * x.y, a * x.z, a * x.w};
}

// rO += P B, for this thread's rows of P, every 4th from `row`, and its groups of four columns of
// B, every 8th from group `column`.
template <int kRows, int kQuads, int kRowsP, int kRowsB, int kPitchP, int kPitch>
__device__ __forceinline__ void add_p_b(float4 (&rO)[kRows][kQuads],
                                        const float (&sP)[kRowsP][kPitchP],
                                        const float (&sB)[kRowsB][kPitch], int row, int column) {
#pragma unroll 4
  for (int c = 0; c < kRowsB; c += 4) {
    float4 p[kRows];
#pragma unroll
    for (int m = 0; m < kRows; ++m) p[m] = load4(&sP[row + 4 * m][c]);
#pragma unroll
    for (int k = 0; k < kQuads; ++k) {
      const int d = 4 * column + 32 * k;
      const float4 b0 = load4(&sB[c][d]), b1 = load4(&sB[c + 1][d]);
      const float4 b2 = load4(&sB[c + 2][d]), b3 = load4(&sB[c + 3][d]);
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        add_scaled(rO[m][k], p[m].x, b0);
        add_scaled(rO[m][k], p[m].y, b1);
        add_scaled(rO[m][k], p[m].z, b2);
        add_scaled(rO[m][k], p[m].w, b3);
      }
    }
  }
}

// O = softmax(softmax_scale · Q Kᵀ) V. One block computes kBlockQ rows of O, and each warp a
// quarter of them. A thread computes kRows × kColumns scores per tile and kRows × 4 kQuads elements
// of O.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads, Config<kHeadDim>::kBlocks)
    attention(ForwardParams p) {
  using C = Config<kHeadDim>;
  constexpr int kRows = C::kRows, kColumns = C::kColumns, kQuads = C::kQuads;
  auto& [sQ, sKV, sP] = shared_storage<SharedStorage<kHeadDim>>();

  // Find this block's head, queries and tensors, and this thread's rows and columns.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int row = warp * 4 * kRows + row_group(lane), column = column_group(lane);
  const auto [b, h, block, unused] =
      unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kBlockQ), 1);
  const int i0 = block * C::kBlockQ;  // [FA2 Alg.1 l.1-3]
  const Sequence seq = sequence(p, b);
  const auto gQ = rows<const T>(p.q, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h));
  const auto gV = rows<const T>(p.v, b, kv_head(p, h));
  const auto gO = rows<T>(p.o, b, h);
  const float scale_log2 = p.softmax_scale * kLog2e;

  // [FA2 Alg.1 l.4-5]  load Q_i; O = 0, l = 0, m = -inf
  load_tile<kHeadDim, C::kThreads>(sQ, gQ, i0, seq.num_queries, thread);
  float4 rO[kRows][kQuads] = {};
  float row_max[kRows], row_sum[kRows] = {};  // m · log2 e; this lane's part of l
  for (float& m : row_max) m = -INFINITY;

  for (const int j0 : kv_tiles<C::kBlockKV>(seq, i0, C::kBlockQ)) {  // [FA2 Alg.1 l.6, 11]
    // [FA2 Alg.1 l.7]  load K_j
    load_tile<kHeadDim, C::kThreads>(sKV, gK, j0, seq.num_keys, thread);
    __syncthreads();  // sQ and K_j are written before any thread reads them.

    // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // kRows × kColumns scores, not yet scaled
    float rS[kRows][kColumns] = {};
    add_a_bt<kHeadDim>(rS, sQ, sKV, row, column);
    // Mask the scores, where the tile needs it.
    if (!all_visible(seq, i0, C::kBlockQ, j0, C::kBlockKV)) {
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          const int i = i0 + row + 4 * m, j = j0 + column + 8 * n;
          if (j >= seq.num_keys || !visible(seq, i, j)) rS[m][n] = -INFINITY;
        }
      }
    }
    __syncthreads();  // All threads have read K_j before V_j overwrites it.

    // [FA2 Alg.1 l.7]  load V_j
    load_tile<kHeadDim, C::kThreads>(sKV, gV, j0, seq.num_keys, thread);

    // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      // Find the row's new maximum, and the factor that corrects the old sums.
      float tile_max = rS[m][0];
#pragma unroll
      for (int n = 1; n < kColumns; ++n) tile_max = fmaxf(tile_max, rS[m][n]);
      const float new_max = fmaxf(row_max[m], max_over_row(tile_max) * scale_log2);
      const float finite_max = new_max == -INFINITY ? 0.f : new_max;  // No key seen yet.
      const float o_scale = exp2f(row_max[m] - finite_max);
      row_max[m] = new_max;
      row_sum[m] *= o_scale;
      // Compute the weights of this thread's keys.
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const float prob = exp2f(rS[m][n] * scale_log2 - finite_max);
        row_sum[m] += prob;
        sP[row + 4 * m][column + 8 * n] = prob;
      }
#pragma unroll
      for (float4& o : rO[m]) o = scaled(o_scale, o);  // [FA2 Alg.1 l.10], first half
    }
    __syncthreads();  // V_j and the warp's rows of sP are written before other threads read them.

    // [FA2 Alg.1 l.10], second half  O = O + P V_j
    add_p_b(rO, sP, sKV, row, column);
    __syncthreads();  // V_j and the warp's rows of sP have been read before they are overwritten.
  }

  // [FA2 Alg.1 l.12, 14]  O = O / l, LSE = m + ln l
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const int i = i0 + row + 4 * m;
    const float sum = sum_over_row(row_sum[m]);  // All lanes take part, even for rows past the end.
    if (i >= seq.num_queries) continue;
    // Write the row; a row that has seen no key is 0.
    const float inverse = sum > 0.f ? 1.f / sum : 0.f;
#pragma unroll
    for (int k = 0; k < kQuads; ++k) {
      store4(&gO(i, 4 * column + 32 * k), scaled(inverse, rO[m][k]));
    }
    if (column == 0 && p.lse != nullptr) {
      p.lse[row_index(p, b, h, i)] = row_max[m] * kLn2 + logf(sum);  // [FA2 Alg.1 l.13, 15]
    }
  }
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::register_tiles
