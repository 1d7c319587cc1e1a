// 06_forward_backward, backward: the seven products of 03 on the tensor cores. P and dS are
// computed in fragments, and pass through shared memory only to become operands.
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

// A block owns kOwned rows (queries for dQ, keys for dK and dV) and streams tiles of the other
// rows past them. A warp owns 16 of the rows, and takes 16 streamed rows at a time.
template <int kHeadDim>
struct BackwardConfig {
  static constexpr int kOwned = 64;
  static constexpr int kStreamed = kHeadDim > 64 ? 32 : 64;
  static constexpr int kWarps = kOwned / kMma;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kStride = kHeadDim + 8;  // 16 bytes from each of 8 rows use all 32 banks.
  static_assert(kOwned % kMma == 0 && 128 % kOwned == 0, "kOwned is 16, 32, 64 or 128");
  static_assert(kStreamed % kMma == 0 && 128 % kStreamed == 0, "kStreamed is 16, 32, 64 or 128");
  static_assert(kStreamed <= 2 * kOwned, "kStreamed is at most 2 kOwned, the number of threads");
  static_assert(kOwned <= kStreamed * kHeadDim / 16, "kOwned is at most kStreamed * kHeadDim / 16");
};

// A warp turns accumulators into operands in these arrays: 16 × 16, padded against bank conflicts.
constexpr int kScratchStride = kMma + 8;
using Scratch = float[kMma][kScratchStride];
template <class T>
using Operand = T[kMma][kScratchStride];

template <class T, int kHeadDim>
struct QueryStorage {
  using C = BackwardConfig<kHeadDim>;
  alignas(128) T sQ[C::kOwned][C::kStride];
  T sdO[C::kOwned][C::kStride], sK[C::kStreamed][C::kStride], sV[C::kStreamed][C::kStride];
  float s_lse[C::kOwned], s_delta[C::kOwned];
  Scratch scratch[C::kWarps];
  Operand<T> sdS[C::kWarps];
};

template <class T, int kHeadDim>
struct KeyValueStorage {
  using C = BackwardConfig<kHeadDim>;
  alignas(128) T sK[C::kOwned][C::kStride];
  T sV[C::kOwned][C::kStride], sQ[C::kStreamed][C::kStride], sdO[C::kStreamed][C::kStride];
  float s_lse[C::kStreamed], s_delta[C::kStreamed];
  Scratch scratch[C::kWarps];
  Operand<T> sP[C::kWarps], sdS[C::kWarps];
};

// Writes a fragment to 16 rows of a tile, from column d on, rounded to T. Unless all_seen is
// true, each element for which seen(r, c) is false becomes 0.
template <class T, int kStride, class Seen>
__device__ __forceinline__ void store_rounded(T (*tile)[kStride], int d,
                                              const Accumulator& fragment, Scratch& scratch,
                                              int lane, bool all_seen, Seen seen) {
  // Store the fragment in rows.
  store_matrix_sync(&scratch[0][0], fragment, kScratchStride, nvcuda::wmma::mem_row_major);
  __syncwarp();  // The scratch is written before lanes read its rows.
  const int r = lane / 2, c = lane % 2 * 4;
  float4 x[] = {load4(&scratch[r][c]), load4(&scratch[r][c + 8])};
  // Mask the elements, where the tile needs it.
  if (!all_seen) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if (!seen(r, c + 8 * n)) x[n].x = 0.f;
      if (!seen(r, c + 8 * n + 1)) x[n].y = 0.f;
      if (!seen(r, c + 8 * n + 2)) x[n].z = 0.f;
      if (!seen(r, c + 8 * n + 3)) x[n].w = 0.f;
    }
  }
  // Round the elements.
  store4(&tile[r][d + c], x[0]);
  store4(&tile[r][d + c + 8], x[1]);
  __syncwarp();  // The tile is written, and the scratch is read, before either is used again.
}

// Writes the warp's strip of a gradient, scaled and rounded, through the warp's own rows of a
// tile that is no longer needed.
template <class T, int kHeadDim, int kRows, int kStride>
__device__ __forceinline__ void write_rows(Rows<T> g, T (&tile)[kRows][kStride],
                                           Accumulator (&strip)[kHeadDim / kMma], float scale,
                                           int first, int num_rows, Scratch& scratch, int thread) {
  const int r0 = thread / 32 * kMma, lane = thread % 32;
#pragma unroll
  for (int n = 0; n < kHeadDim / kMma; ++n) {
    for (float& x : strip[n].x) x *= scale;
    store_rounded(&tile[r0], n * kMma, strip[n], scratch, lane, true,
                  [](int, int) { return true; });
  }
  constexpr int kVectors = kHeadDim / 8;
#pragma unroll
  for (int n = lane; n < kMma * kVectors; n += 32) {
    const int r = r0 + visited_row<2 * kHeadDim>(n / kVectors), d = n % kVectors * 8;
    if (first + r < num_rows) {
      *reinterpret_cast<uint4*>(&g(first + r, d)) = *reinterpret_cast<const uint4*>(&tile[r][d]);
    }
  }
}

// delta = rowsum(dO ∘ O) of the block's rows; kHeadDim / 4 lanes share a row.
template <class T, int kHeadDim>
__device__ __forceinline__ void row_deltas(QueryStorage<T, kHeadDim>& shared, Rows<const T> gO,
                                           int i0, int seq_q, int thread) {
  using C = BackwardConfig<kHeadDim>;
  constexpr int kLanes = kHeadDim / 4;
#pragma unroll 4
  for (int n = thread / kLanes; n < C::kOwned; n += C::kThreads / kLanes) {
    const int r = visited_row<2 * kHeadDim>(n), d = thread % kLanes * 4;
    const float4 o = i0 + r < seq_q ? load4(&gO(i0 + r, d)) : float4{};
    const float4 d_o = load4(&shared.sdO[r][d]);
    float sum = o.x * d_o.x + o.y * d_o.y + o.z * d_o.z + o.w * d_o.w;
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (d == 0) shared.s_delta[r] = sum;
  }
}

// delta = rowsum(dO ∘ O), then dQ = softmax_scale · dS K. One block computes kOwned rows of both.
template <class Element, int kHeadDim>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads, kHeadDim > 64 ? 3 : 4)
    query_gradient(BackwardParams p, float* delta) {
  using T = typename TensorCoreType<Element>::Type;
  using C = BackwardConfig<kHeadDim>;
  constexpr int kSteps = kHeadDim / kMma;
  auto& shared = shared_storage<QueryStorage<T, kHeadDim>>();
  auto& [sQ, sdO, sK, sV, s_lse, s_delta, all_scratch, all_dS] = shared;

  // Find this block's head, queries and tensors, and this warp's rows.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, block, unused] =
      unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kOwned), 1);
  const int i0 = block * C::kOwned;  // [FA2 Alg.2 l.1-2, 8]
  const Sequence seq = sequence(p, b);
  const int r0 = warp * kMma;
  const auto gQ = rows<const T>(p.q, b, h), gO = rows<const T>(p.o, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h)), gV = rows<const T>(p.v, b, kv_head(p, h));
  const auto gdO = rows<const T>(p.d_o, b, h);
  auto& scratch = all_scratch[warp];
  auto& sdS = all_dS[warp];

  // [FA2 Alg.2 l.9]  load Q_i and dO_i; O_i and LSE_i follow below
  copy_tile<kHeadDim, C::kThreads>(sQ, gQ, i0, seq.num_queries, thread);
  copy_tile<kHeadDim, C::kThreads>(sdO, gdO, i0, seq.num_queries, thread);
  __syncthreads();  // sdO is written before any thread reads it.

  // [FA2 Alg.2 l.4]  delta = rowsum(dO ∘ O), for this block and for key_value_gradient
  row_deltas(shared, gO, i0, seq.num_queries, thread);
  __syncthreads();  // s_delta is written before any thread reads it.
  // Keep the LSE of the rows; write delta for the other kernel.
  if (thread < C::kOwned) {
    const int i = i0 + thread;
    const std::int64_t n = row_index(p, b, h, i);
    s_lse[thread] = i < seq.num_queries ? p.lse[n] * kLog2e : INFINITY;  // P = 0 past the end.
    if (i < seq.num_queries) delta[n] = s_delta[thread];
  }
  if (p.dq.data == nullptr) return;
  __syncthreads();  // s_lse is written before fragments are loaded from it.

  // Hold LSE and delta in fragments of the type of S, in which all elements of a row are equal.
  const Accumulator rLse = every_column(&s_lse[r0]), rDelta = every_column(&s_delta[r0]);
  const float scale_log2 = p.softmax_scale * kLog2e;
  Accumulator rdQ[kSteps];
  for (auto& dq : rdQ) fill_fragment(dq, 0.f);  // [FA2 Alg.2 l.3]

  for (const int j0 : kv_tiles<C::kStreamed>(seq, i0, C::kOwned)) {  // [FA2 Alg.2 l.5, 19]
    // [FA2 Alg.2 l.6]  load K_j, V_j
    copy_tile<kHeadDim, C::kThreads>(sK, gK, j0, seq.num_keys, thread);
    copy_tile<kHeadDim, C::kThreads>(sV, gV, j0, seq.num_keys, thread);
    const bool whole = all_visible(seq, i0, C::kOwned, j0, C::kStreamed);
    __syncthreads();  // sK and sV are written before any warp reads them.

    for (int c0 = 0; c0 < C::kStreamed; c0 += kMma) {
      // [FA2 Alg.2 l.10, 13]  S = Q_i K_jᵀ, dP = dO_i V_jᵀ    // (16, 16) f32 per warp
      Accumulator rS, rdP;
      fill_fragment(rS, 0.f);
      fill_fragment(rdP, 0.f);
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        MatrixA<T> rQ, rdO;
        MatrixB<T, ColMajor> rK, rV;
        load_matrix_sync(rQ, &sQ[r0][k * kMma], C::kStride);
        load_matrix_sync(rK, &sK[c0][k * kMma], C::kStride);
        mma_sync(rS, rQ, rK, rS);
        load_matrix_sync(rdO, &sdO[r0][k * kMma], C::kStride);
        load_matrix_sync(rV, &sV[c0][k * kMma], C::kStride);
        mma_sync(rdP, rdO, rV, rdP);
      }

      // [FA2 Alg.2 l.11, 14]  P = exp(S − LSE), dS = P ∘ (dP − delta)
      Accumulator rdS;
#pragma unroll
      for (int e = 0; e < rdS.num_elements; ++e) {
        const float prob = ptx::exp2(rS.x[e] * scale_log2 - rLse.x[e]);
        rdS.x[e] = prob * (rdP.x[e] - rDelta.x[e]);
      }
      store_rounded(sdS, 0, rdS, scratch, lane, whole, [&](int r, int c) {
        const int i = i0 + r0 + r, j = j0 + c0 + c;
        return j < seq.num_keys && visible(seq, i, j);
      });

      // [FA2 Alg.2 l.15]  dQ = dQ + dS K_j    // (16, kHeadDim) f32 per warp, in fragments
      MatrixA<T> rdS_a;
      load_matrix_sync(rdS_a, &sdS[0][0], kScratchStride);
#pragma unroll
      for (int n = 0; n < kSteps; ++n) {
        MatrixB<T, RowMajor> rK;
        load_matrix_sync(rK, &sK[c0][n * kMma], C::kStride);
        mma_sync(rdQ[n], rdS_a, rK, rdQ[n]);
      }
    }
    __syncthreads();  // All warps have read sK and sV before they are overwritten.
  }

  // [FA2 Alg.2 l.15], second half  write dQ_i
  write_rows<T, kHeadDim>(rows<T>(p.dq, b, h), sQ, rdQ, p.softmax_scale, i0, seq.num_queries,
                          scratch, thread);
}  // [FA2 Alg.2 l.17, 20]

// dK = softmax_scale · dSᵀ Q and dV = Pᵀ dO, summed over the query heads that share the KV head.
// One block computes kOwned rows of both.
template <class Element, int kHeadDim>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads, kHeadDim > 64 ? 2 : 3)
    key_value_gradient(BackwardParams p, const float* delta) {
  using T = typename TensorCoreType<Element>::Type;
  using C = BackwardConfig<kHeadDim>;
  constexpr int kSteps = kHeadDim / kMma;
  auto& [sK, sV, sQ, sdO, s_lse, s_delta, all_scratch, all_P, all_dS] =
      shared_storage<KeyValueStorage<T, kHeadDim>>();

  // Find this block's KV head and keys, and this warp's rows.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h_kv, block, unused] =
      unravel(blockIdx.x, p.heads_kv, num_tiles(p.seq_kv, C::kOwned), 1);
  const int j0 = block * C::kOwned;  // [FA2 Alg.2 l.1-3, 5]
  const Sequence seq = sequence(p, b);
  const int r0 = warp * kMma, group = p.heads_q / p.heads_kv;
  auto& scratch = all_scratch[warp];
  auto& sP = all_P[warp];
  auto& sdS = all_dS[warp];

  // [FA2 Alg.2 l.6-7]  load K_j, V_j; dK = 0, dV = 0
  copy_tile<kHeadDim, C::kThreads>(sK, rows<const T>(p.k, b, h_kv), j0, seq.num_keys, thread);
  copy_tile<kHeadDim, C::kThreads>(sV, rows<const T>(p.v, b, h_kv), j0, seq.num_keys, thread);
  __syncthreads();  // sK and sV are written before any warp reads them, or reuses its rows.

  const float scale_log2 = p.softmax_scale * kLog2e;
  Accumulator rdK[kSteps], rdV[kSteps];
  for (auto& dk : rdK) fill_fragment(dk, 0.f);
  for (auto& dv : rdV) fill_fragment(dv, 0.f);

  // Stream the queries of each head that shares the KV head past the block's keys.
  for (int h = h_kv * group; h < (h_kv + 1) * group; ++h) {
    const auto gQ = rows<const T>(p.q, b, h), gdO = rows<const T>(p.d_o, b, h);
    const float* gLse = p.lse + row_index(p, b, h, 0);  // of this head
    const float* gDelta = delta + row_index(p, b, h, 0);
    for (const int i0 : q_tiles<C::kStreamed>(seq, j0, C::kOwned)) {  // [FA2 Alg.2 l.8, 17]
      // [FA2 Alg.2 l.9]  load Q_i, dO_i, LSE_i, delta_i
      copy_tile<kHeadDim, C::kThreads>(sQ, gQ, i0, seq.num_queries, thread);
      copy_tile<kHeadDim, C::kThreads>(sdO, gdO, i0, seq.num_queries, thread);
      if (thread < C::kStreamed) {
        const int i = i0 + thread;
        s_lse[thread] = i < seq.num_queries ? gLse[i] * kLog2e : INFINITY;  // P = 0 past the end.
        s_delta[thread] = i < seq.num_queries ? gDelta[i] : 0.f;
      }
      const bool whole = all_visible(seq, i0, C::kStreamed, j0, C::kOwned);
      __syncthreads();  // The streamed tiles are written before any warp reads them.

      for (int c0 = 0; c0 < C::kStreamed; c0 += kMma) {
        // [FA2 Alg.2 l.10, 13]  Sᵀ = K_j Q_iᵀ, dPᵀ = V_j dO_iᵀ    // (16, 16) f32 per warp
        Accumulator rS, rdP;
        fill_fragment(rS, 0.f);
        fill_fragment(rdP, 0.f);
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
          MatrixA<T> rK, rV;
          MatrixB<T, ColMajor> rQ, rdO;
          load_matrix_sync(rK, &sK[r0][k * kMma], C::kStride);
          load_matrix_sync(rQ, &sQ[c0][k * kMma], C::kStride);
          mma_sync(rS, rK, rQ, rS);
          load_matrix_sync(rV, &sV[r0][k * kMma], C::kStride);
          load_matrix_sync(rdO, &sdO[c0][k * kMma], C::kStride);
          mma_sync(rdP, rV, rdO, rdP);
        }

        // [FA2 Alg.2 l.11, 14]  P = exp(S − LSE), dS = P ∘ (dP − delta)
        const Accumulator rLse = every_row(&s_lse[c0]), rDelta = every_row(&s_delta[c0]);
        Accumulator rP, rdS;
#pragma unroll
        for (int e = 0; e < rP.num_elements; ++e) {
          rP.x[e] = ptx::exp2(rS.x[e] * scale_log2 - rLse.x[e]);
          rdS.x[e] = rP.x[e] * (rdP.x[e] - rDelta.x[e]);
        }
        // Round both. A key past the last one affects only rows that are not written.
        const auto seen = [&](int r, int c) { return visible(seq, i0 + c0 + c, j0 + r0 + r); };
        store_rounded(sP, 0, rP, scratch, lane, whole, seen);
        store_rounded(sdS, 0, rdS, scratch, lane, whole, seen);

        // [FA2 Alg.2 l.12, 16]  dV = dV + Pᵀ dO_i, dK = dK + dSᵀ Q_i    // (16, kHeadDim) fragments
        MatrixA<T> rP_a, rdS_a;
        load_matrix_sync(rP_a, &sP[0][0], kScratchStride);
        load_matrix_sync(rdS_a, &sdS[0][0], kScratchStride);
#pragma unroll
        for (int n = 0; n < kSteps; ++n) {
          MatrixB<T, RowMajor> rdO, rQ;
          load_matrix_sync(rdO, &sdO[c0][n * kMma], C::kStride);
          mma_sync(rdV[n], rP_a, rdO, rdV[n]);
          load_matrix_sync(rQ, &sQ[c0][n * kMma], C::kStride);
          mma_sync(rdK[n], rdS_a, rQ, rdK[n]);
        }
      }
      __syncthreads();  // All warps have read the streamed tiles before they are overwritten.
    }
  }

  // [FA2 Alg.2 l.18]  write dK_j, dV_j
  if (p.dk.data != nullptr) {
    write_rows<T, kHeadDim>(rows<T>(p.dk, b, h_kv), sK, rdK, p.softmax_scale, j0, seq.num_keys,
                            scratch, thread);
  }
  if (p.dv.data != nullptr) {
    write_rows<T, kHeadDim>(rows<T>(p.dv, b, h_kv), sV, rdV, 1.f, j0, seq.num_keys, scratch,
                            thread);
  }
}  // [FA2 Alg.2 l.19-20]

}  // namespace cuflash::forward_backward
