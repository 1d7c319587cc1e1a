// 07_mma_registers, forward: both products by mma.sync, whose lane maps are specified. A lane holds
// its elements of S where the second product takes them as P, so S, P and O never leave registers.
#pragma once

#include <cmath>

#include "device/constants.h"
#include "device/copy.h"
#include "device/index.h"
#include "device/mma_fragments.h"
#include "device/ptx/exp2.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mma.h"
#include "device/shared_memory.h"
#include "device/tensor.h"
#include "device/tiles.h"

namespace cuflash::mma_registers {

template <int kHeadDim>
struct Config {
  static constexpr int kBlockQ = 64;              // queries that a block computes
  static constexpr int kBlockKV = 64;             // keys of one tile
  static constexpr int kWarps = kBlockQ / kMmaM;  // a warp computes a strip of 16 rows
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocks = 384 / kThreads;  // an SM: a thread has up to 168 registers
  static constexpr int kPad = 8;  // 16 bytes per row, so that 8 rows of a matrix lie in all banks
  static_assert(kBlockQ % kMmaM == 0 && 128 % kBlockQ == 0, "kBlockQ is 16, 32, 64 or 128");
  static_assert(kBlockKV % kMmaK == 0, "kBlockKV is a multiple of 16");
};

template <class T, int kHeadDim>
struct SharedStorage {
  using C = Config<kHeadDim>;
  alignas(16) T sQ[C::kBlockQ][kHeadDim + C::kPad];  // at the end, O
  T sK[C::kBlockKV][kHeadDim + C::kPad];
  T sV[C::kBlockKV][kHeadDim + C::kPad];
};

// The maximum and the sum over the four lanes that share a row of an accumulator.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// O = softmax(softmax_scale · Q Kᵀ) V. One block computes kBlockQ rows of O, one warp 16 of them.
// A lane holds parts of two rows, lane / 4 and lane / 4 + 8: elements 0 and 1 of an accumulator are
// of the first, 2 and 3 of the second.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads, Config<kHeadDim>::kBlocks)
    attention(ForwardParams p) {
  using C = Config<kHeadDim>;
  constexpr int kSteps = kHeadDim / 16, kKeySteps = C::kBlockKV / 16;
  auto& [sQ, sK, sV] = shared_storage<SharedStorage<T, kHeadDim>>();

  // Find this block's head, queries and tensors, and this warp's queries.
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, block, unused] =
      unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kBlockQ), 1);
  const int i0 = block * C::kBlockQ, r0 = warp * kMmaM;  // [FA2 Alg.1 l.1-3]
  const Sequence seq = sequence(p, b);
  const auto gQ = rows<const T>(p.q, b, h);
  const auto gK = rows<const T>(p.k, b, kv_head(p, h));
  const auto gV = rows<const T>(p.v, b, kv_head(p, h));

  // [FA2 Alg.1 l.4-5]  load Q_i; O = 0, l = 0, m = -inf
  copy_tile<kHeadDim, C::kThreads>(sQ, gQ, i0, seq.num_queries, thread);
  __syncthreads();  // sQ is written before any warp reads its rows, or writes O there.
  MmaAccumulator::Registers rO[kHeadDim / kMmaN] = {};
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {};  // row_sum: of this lane's columns
  const float scale_log2 = p.softmax_scale * kLog2e;

  for (const int j0 : kv_tiles<C::kBlockKV>(seq, i0, C::kBlockQ)) {  // [FA2 Alg.1 l.6, 11]
    // [FA2 Alg.1 l.7]  load K_j, V_j
    copy_tile<kHeadDim, C::kThreads>(sK, gK, j0, seq.num_keys, thread);
    copy_tile<kHeadDim, C::kThreads>(sV, gV, j0, seq.num_keys, thread);
    __syncthreads();  // sK and sV are written before any warp reads them.

    // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // (16, kBlockKV) f32 a warp, registers
    MmaAccumulator::Registers rS[C::kBlockKV / kMmaN] = {};
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      MmaA::Registers rQ;
      ptx::ldmatrix_x4(rQ, &sQ[r0 + LoadA::row(lane)][k * 16 + LoadA::col(lane)]);
#pragma unroll
      for (int n = 0; n < kKeySteps; ++n) {
        std::uint32_t rK[4];  // of 16 keys: a row of sK is a column of Kᵀ
        ptx::ldmatrix_x4(
            rK, &sK[n * 16 + LoadBTransposed::row(lane)][k * 16 + LoadBTransposed::col(lane)]);
        ptx::mma_m16n8k16<T>(rS[2 * n], rQ, {rK[0], rK[1]});
        ptx::mma_m16n8k16<T>(rS[2 * n + 1], rQ, {rK[2], rK[3]});
      }
    }

    // Mask the scores, where the warp's part of the tile needs it.
    if (!all_visible(seq, i0 + r0, kMmaM, j0, C::kBlockKV)) {
#pragma unroll
      for (int n = 0; n < C::kBlockKV / kMmaN; ++n) {
#pragma unroll
        for (int e = 0; e < MmaAccumulator::kElements; ++e) {
          const int i = i0 + r0 + MmaAccumulator::row(lane, e);
          const int j = j0 + n * kMmaN + MmaAccumulator::col(lane, e);
          if (j >= seq.num_keys || !visible(seq, i, j)) rS[n][e] = -INFINITY;
        }
      }
    }

    // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
    MmaA::Registers rP[kKeySteps];  // the same lanes hold the same elements of S and of P
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float new_max = row_max[r];
      for (const auto& s : rS) new_max = fmaxf(new_max, fmaxf(s[2 * r], s[2 * r + 1]));
      new_max = quad_max(new_max);
      const float finite_max = new_max == -INFINITY ? 0.f : new_max;  // No key seen yet.
      const float o_scale = ptx::exp2((row_max[r] - finite_max) * scale_log2);
      // Weigh the keys.
      float sum = 0.f;
#pragma unroll
      for (int n = 0; n < C::kBlockKV / kMmaN; ++n) {
        const float x = ptx::exp2(rS[n][2 * r] * scale_log2 - finite_max * scale_log2);
        const float y = ptx::exp2(rS[n][2 * r + 1] * scale_log2 - finite_max * scale_log2);
        sum += x + y;
        rP[n / 2][n % 2 * 2 + r] = pack<T>(x, y);
      }
      row_sum[r] = row_sum[r] * o_scale + sum;
      row_max[r] = new_max;
      // Rescale O.
      for (auto& o : rO) o[2 * r] *= o_scale, o[2 * r + 1] *= o_scale;
    }

    // [FA2 Alg.1 l.10]  O = o_scale · O + P V_j    // (16, kHeadDim) f32 a warp, registers
#pragma unroll
    for (int k = 0; k < kKeySteps; ++k) {
#pragma unroll
      for (int n = 0; n < kSteps; ++n) {
        std::uint32_t rV[4];  // of 16 columns
        ptx::ldmatrix_x4_trans(rV, &sV[k * 16 + LoadB::row(lane)][n * 16 + LoadB::col(lane)]);
        ptx::mma_m16n8k16<T>(rO[2 * n], rP[k], {rV[0], rV[1]});
        ptx::mma_m16n8k16<T>(rO[2 * n + 1], rP[k], {rV[2], rV[3]});
      }
    }
    __syncthreads();  // All threads have read sK and sV before they are overwritten.
  }

  // [FA2 Alg.1 l.12]  O = O / l    // into the rows of sQ that this warp alone reads
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = r0 + MmaAccumulator::row(lane, 2 * r), i = i0 + row;
    const float sum = quad_sum(row_sum[r]), inverse = sum > 0.f ? 1.f / sum : 0.f;
#pragma unroll
    for (int n = 0; n < kHeadDim / kMmaN; ++n) {
      *reinterpret_cast<std::uint32_t*>(&sQ[row][n * kMmaN + MmaAccumulator::col(lane, 0)]) =
          pack<T>(rO[n][2 * r] * inverse, rO[n][2 * r + 1] * inverse);
    }
    if (lane % 4 == 0 && i < seq.num_queries && p.lse != nullptr) {
      p.lse[row_index(p, b, h, i)] =
          row_max[r] * p.softmax_scale + logf(sum);  // [FA2 Alg.1 l.13, 15]
    }
  }
  __syncwarp();  // The warp's rows are written before its lanes read them in another order.

  // [FA2 Alg.1 l.14]  write O_i
  const auto gO = rows<T>(p.o, b, h);
  constexpr int kVectors = kHeadDim / 8;  // 16 bytes each, of a row
#pragma unroll
  for (int n = lane; n < kMmaM * kVectors; n += 32) {
    const int row = r0 + visited_row<kHeadDim * sizeof(T)>(n / kVectors), d = n % kVectors * 8;
    if (i0 + row >= seq.num_queries) continue;
    *reinterpret_cast<uint4*>(&gO(i0 + row, d)) = *reinterpret_cast<const uint4*>(&sQ[row][d]);
  }
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::mma_registers
