// 09_async_copy, forward: tiles are copied by cp.async while the warps compute.
#pragma once

#include <cfloat>
#include <climits>
#include <cmath>

#include "device/constants.h"
#include "device/epilogue.h"
#include "device/index.h"
#include "device/mask_scores.h"
#include "device/mma_fragments.h"
#include "device/ptx/cp_async.h"
#include "device/ptx/exp2.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mma.h"
#include "device/registers.h"
#include "device/shared_memory.h"
#include "device/swizzle.h"
#include "device/tensor.h"
#include "device/tiles.h"
#include "device/warp.h"

namespace cuflash::async_copy {

// The shape of a block's work. 99 KB of shared memory hold each (compute capability 8.6 and 8.9).
struct Shape {
  int strips;   // of 16 queries a warp: two use each operand of K and V that the warp loads
  int stages;   // buffers of K and of V
  int q_steps;  // of 16 columns of Q that stay in registers; the others are loaded for each tile
  int blocks;   // an SM
};
constexpr Shape shape(int head_dim) {
  switch (head_dim) {
    case 32:
      return {2, 2, 2, 3};  // 24 KB
    case 64:
      return {2, 2, 4, 2};  // 48 KB; all of Q in registers
    case 96:
      return {2, 2, 0, 2};  // 72 KB
    case 128:
      return {2, 2, 0, 2};  // 96 KB; O takes 128 registers, S of a tile 64
    default:
      return {1, 1, 0, 2};  // 96 KB; O of 16 queries takes 128 registers
  }
}

template <int kHeadDim>
struct Config {
  static constexpr Shape kShape = shape(kHeadDim);
  static constexpr int kStrips = kShape.strips, kStages = kShape.stages, kQSteps = kShape.q_steps;
  static constexpr int kWarps = 4, kThreads = 32 * kWarps;
  static constexpr int kWarpQ = kMmaM * kStrips, kBlockQ = kWarpQ * kWarps;
  static constexpr int kBlockKV = 64, kSteps = kHeadDim / 16, kKeySteps = kBlockKV / 16;
  // What a lane holds of a warp's queries: operands of Q, the last for those that are loaded for
  // each tile; S and P of a tile; O; a number for each row.
  using Queries = MmaA::Registers[kStrips][kQSteps + 1];
  using Scores = MmaAccumulator::Registers[kStrips][kBlockKV / kMmaN];
  using Weights = MmaA::Registers[kStrips][kKeySteps];
  using Output = MmaAccumulator::Registers[kStrips][kHeadDim / kMmaN];
  using RowValues = float[kStrips][2];
};

template <class T, int kHeadDim>
struct SharedStorage {
  using C = Config<kHeadDim>;
  using QTile = SwizzledTile<T, C::kBlockQ, kHeadDim>;
  using KVTile = SwizzledTile<T, C::kBlockKV, kHeadDim>;
  QTile sQ;  // at the end, O
  KVTile sK[C::kStages], sV[C::kStages];
};

// Begins to copy the rows [first, first + kRows) of a head into a tile. Each thread copies one
// chunk of each panel in every kStep-th row. Rows past the end become zeros.
template <int kThreads, class T, int kRows, int kHeadDim>
__device__ __forceinline__ void request_tile(SwizzledTile<T, kRows, kHeadDim>& tile,
                                             Rows<const T> g, int first, int num_rows, int thread) {
  using Tile = SwizzledTile<T, kRows, kHeadDim>;
  constexpr int kStep = kThreads / Tile::kChunks;  // rows that all threads together copy at a time
  const unsigned again = opaque(thread);
  const int r0 = again / Tile::kChunks, d = again % Tile::kChunks * 8;
  const T* from = &g(first + r0, d);
#pragma unroll
  for (int r = 0; r < kRows; r += kStep) {
#pragma unroll
    for (int c = 0; c < kHeadDim; c += Tile::kPanelCols) {
      const bool valid = first + r0 + r < num_rows;
      ptx::cp_async_16(&tile(r0 + r, d + c), from + c, valid);
    }
    from = opaque(from + kStep * g.row_stride);  // One moving pointer, not one for each row.
  }
}

// The block's batch, head and tile of queries. If the mask lets tiles see different numbers of
// keys, the last tiles of all heads come first: they take longest. Otherwise the tiles of a head
// run side by side, and find its K and V in the L2 cache.
__device__ __forceinline__ Place place_of_block(const ForwardParams& p, int tiles) {
  const int heads = p.batch * p.heads_q, n = blockIdx.x;
  const bool unequal = p.width != UINT_MAX;
  const int tile = unequal ? tiles - 1 - n / heads : n % tiles,
            head = unequal ? n % heads : n / tiles;
  return uniform({head / p.heads_q, head % p.heads_q, tile, 0});
}

// rS += Q Kᵀ for a warp's queries, from row r0 of sQ on, and a tile of keys. The first kQSteps
// operands of Q are in rQ.
template <class C, class T, class QTile, class KVTile>
__device__ __forceinline__ void add_scores(typename C::Scores& rS, typename C::Queries& rQ,
                                           QTile& sQ, KVTile& sK, int r0, int lane) {
  const Chunks lane_Q(sQ, r0 + LoadA::row(lane), LoadA::col(lane));
  const Chunks lane_K(sK, LoadBTransposed::row(lane), LoadBTransposed::col(lane));
#pragma unroll
  for (int k = 0; k < C::kSteps; ++k) {
    if (k >= C::kQSteps) {
#pragma unroll
      for (int m = 0; m < C::kStrips; ++m) ptx::ldmatrix_x4(rQ[m][C::kQSteps], lane_Q(m, k));
    }
#pragma unroll
    for (int n = 0; n < C::kKeySteps; ++n) {
      std::uint32_t rK[4];  // of 16 keys: a row of sK is a column of Kᵀ
      ptx::ldmatrix_x4(rK, lane_K(n, k));
#pragma unroll
      for (int m = 0; m < C::kStrips; ++m) {
        auto& q = rQ[m][k < C::kQSteps ? k : C::kQSteps];
        ptx::mma_m16n8k16<T>(rS[m][2 * n], q, {rK[0], rK[1]});
        ptx::mma_m16n8k16<T>(rS[m][2 * n + 1], q, {rK[2], rK[3]});
      }
    }
  }
}

// P = exp(S − m) for a tile. Where m grows by more than the slack, O and l are rescaled first.
template <class C, class T>
__device__ __forceinline__ void softmax(typename C::Weights& rP, const typename C::Scores& rS,
                                        typename C::Output& rO, typename C::RowValues& row_max,
                                        typename C::RowValues& row_sum, float scale_log2) {
  constexpr float kSlack = 8.f;  // O is rescaled when a term of P would exceed 2 to this power
  typename C::RowValues tile_max;
  bool grew = false;
#pragma unroll
  for (int x = 0; x < 2 * C::kStrips; ++x) {
    const int m = x / 2, r = x % 2;  // strip, and which of the lane's two rows
    float lane_max = fmaxf(rS[m][0][2 * r], rS[m][0][2 * r + 1]);
    for (const auto& s : rS[m]) lane_max = fmaxf(lane_max, fmaxf(s[2 * r], s[2 * r + 1]));
    tile_max[m][r] = quad_max(lane_max) * scale_log2;
    grew |= tile_max[m][r] - row_max[m][r] > kSlack;
  }
  // Rescale O and l, but only rows whose maximum has grown by more than the slack.
  if (__any_sync(0xffffffffu, grew)) {
#pragma unroll
    for (int x = 0; x < 2 * C::kStrips; ++x) {
      const int m = x / 2, r = x % 2;
      const float old_max = row_max[m][r];
      if (tile_max[m][r] - old_max > kSlack) row_max[m][r] = tile_max[m][r];
      const float o_scale = ptx::exp2(old_max - row_max[m][r]);
      row_sum[m][r] *= o_scale;
      for (auto& o : rO[m]) o[2 * r] *= o_scale, o[2 * r + 1] *= o_scale;
    }
  }
  // Weigh the keys: the same lanes hold the same elements of S and P.
#pragma unroll
  for (int k = 0; k < C::kKeySteps; ++k) {
#pragma unroll
    for (int m = 0; m < C::kStrips; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int r = e % 2;
        const auto& s = rS[m][2 * k + e / 2];
        const float x = ptx::exp2(fmaf(s[2 * r], scale_log2, -row_max[m][r]));
        const float y = ptx::exp2(fmaf(s[2 * r + 1], scale_log2, -row_max[m][r]));
        row_sum[m][r] += x;
        row_sum[m][r] += y;
        rP[m][k][e] = pack<T>(x, y);
      }
    }
  }
}

// rO += P V for a tile of keys.
template <class C, class T, class KVTile>
__device__ __forceinline__ void add_values(typename C::Output& rO, typename C::Weights& rP,
                                           KVTile& sV, int lane) {
  const Chunks lane_V(sV, LoadB::row(lane), LoadB::col(lane));
#pragma unroll
  for (int k = 0; k < C::kKeySteps; ++k) {
#pragma unroll
    for (int n = 0; n < C::kSteps; ++n) {
      std::uint32_t rV[4];  // of 16 columns
      ptx::ldmatrix_x4_trans(rV, lane_V(k, n));
#pragma unroll
      for (int m = 0; m < C::kStrips; ++m) {
        ptx::mma_m16n8k16<T>(rO[m][2 * n], rP[m][k], {rV[0], rV[1]});
        ptx::mma_m16n8k16<T>(rO[m][2 * n + 1], rP[m][k], {rV[2], rV[3]});
      }
    }
  }
}

// O = softmax(softmax_scale · Q Kᵀ) V. One block computes kBlockQ rows of O, one warp kWarpQ of
// them. Of each strip of 16 rows a lane holds parts of two rows, lane / 4 and lane / 4 + 8.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads, Config<kHeadDim>::kShape.blocks)
    attention(const __grid_constant__ ForwardParams p) {
  using C = Config<kHeadDim>;
  auto& storage = shared_storage<SharedStorage<T, kHeadDim>>();
  auto& sQ = storage.sQ;
  auto &sK = storage.sK, &sV = storage.sV;

  // Find this block's head, queries, keys and tensors, and this warp's queries.
  const int thread = threadIdx.x, warp = uniform(thread / 32);
  const auto [b, h, block, unused] = place_of_block(p, num_tiles(p.seq_q, C::kBlockQ));
  const int i0 = block * C::kBlockQ, r0 = uniform(warp * C::kWarpQ);  // [FA2 Alg.1 l.1-3]
  const Sequence seq = sequence(p, b);
  const int hk = uniform(kv_head(p, h));
  const auto gQ = rows<const T>(p.q, b, h);
  const auto gK = rows<const T>(p.k, b, hk);
  const auto gV = rows<const T>(p.v, b, hk);
  const Range keys = uniform(visible_keys(seq, i0, i0 + C::kBlockQ));

  // [FA2 Alg.1 l.4-7]  load Q_i; O = 0, l = 0, m = -inf; begin with the first K_j and V_j
  request_tile<C::kThreads>(sQ, gQ, i0, seq.num_queries, thread);
  ptx::cp_async_commit();
  if (keys.begin < keys.end) {
    const int j0 = keys.begin / C::kBlockKV * C::kBlockKV;
    request_tile<C::kThreads>(sK[0], gK, j0, seq.num_keys, thread);
    if (C::kStages == 2) request_tile<C::kThreads>(sV[0], gV, j0, seq.num_keys, thread);
  }
  ptx::cp_async_commit();
  typename C::Output rO = {};
  // row_max: m · scale_log2, to be subtracted in one instruction; row_sum: of this lane's columns
  typename C::RowValues row_max, row_sum = {};
  for (auto& m : row_max) m[0] = m[1] = -FLT_MAX;  // finite: −∞ minus −∞ would be a NaN
  const float scale_log2 = p.softmax_scale * kLog2e;

  ptx::cp_async_wait<1>();
  __syncthreads();  // Q has arrived for all threads.
  const Chunks lane_Q(sQ, r0 + LoadA::row(thread % 32), LoadA::col(thread % 32));
  typename C::Queries rQ;
#pragma unroll
  for (int m = 0; m < C::kStrips; ++m) {
#pragma unroll
    for (int k = 0; k < C::kQSteps; ++k) ptx::ldmatrix_x4(rQ[m][k], lane_Q(m, k));
  }

  // Walk over the tiles of keys.
  int stage = 0;
#pragma unroll 1
  for (const int j0 : Tiles<C::kBlockKV>("KV tile", keys)) {  // [FA2 Alg.1 l.6, 11]
    const int lane = opaque(thread) % 32u, next_j0 = j0 + C::kBlockKV;
    const bool more = next_j0 < keys.end;
    ptx::cp_async_wait<0>();
    __syncthreads();  // All threads see this tile, and have read what is overwritten now.
    if constexpr (C::kStages == 2) {
      if (more) request_tile<C::kThreads>(sK[stage ^ 1], gK, next_j0, seq.num_keys, thread);
      if (more) request_tile<C::kThreads>(sV[stage ^ 1], gV, next_j0, seq.num_keys, thread);
    } else {
      request_tile<C::kThreads>(sV[0], gV, j0, seq.num_keys, thread);
    }
    ptx::cp_async_commit();

    // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // (kWarpQ, kBlockKV) f32 a warp, registers
    typename C::Scores rS = {};
    add_scores<C, T>(rS, rQ, sQ, sK[stage], r0, lane);
    if constexpr (C::kStages == 1) {
      ptx::cp_async_wait<0>();
      __syncthreads();  // All threads see V_j, and have read K_j.
      if (more) request_tile<C::kThreads>(sK[0], gK, next_j0, seq.num_keys, thread);
      ptx::cp_async_commit();
    }
    // Mask the scores, where the warp's part of the tile needs it.
    if (!all_visible(seq, i0 + r0, C::kWarpQ, j0, C::kBlockKV)) {
#pragma unroll
      for (int m = 0; m < C::kStrips; ++m) {
        mask_scores(rS[m], seq, i0 + opaque(warp) * C::kWarpQ + m * kMmaM, j0, lane);
      }
    }
    // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
    typename C::Weights rP;
    softmax<C, T>(rP, rS, rO, row_max, row_sum, scale_log2);
    // [FA2 Alg.1 l.10]  O = o_scale · O + P V_j    // (kWarpQ, kHeadDim) f32 a warp, registers
    add_values<C, T>(rO, rP, sV[stage], lane);
    stage ^= C::kStages - 1;
  }

  // [FA2 Alg.1 l.12]  O = O / l    // into the rows of sQ that this warp alone reads
  __syncwarp();  // All lanes have read these rows before they are overwritten.
  const int lane = opaque(thread) % 32u;
#pragma unroll
  for (int m = 0; m < C::kStrips; ++m) {
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      row_sum[m][r] = quad_sum(row_sum[m][r]);
      inverse[r] = row_sum[m][r] > 0.f ? 1.f / row_sum[m][r] : 0.f;
    }
    store_rounded<T>(sQ, r0 + m * kMmaM, 0, rO[m], inverse, lane);
  }
#pragma unroll
  for (int x = 0; x < 2 * C::kStrips; ++x) {
    const int m = x / 2, r = x % 2;
    const int i = i0 + r0 + m * kMmaM + MmaAccumulator::row(lane, 2 * r);
    if (lane % 4 == 0 && i < seq.num_queries && p.lse != nullptr) {
      p.lse[row_index(p, b, h, i)] =
          row_max[m][r] * kLn2 + logf(row_sum[m][r]);  // [FA2 Alg.1 l.13, 15]
    }
  }
  __syncwarp();  // The warp's rows are written before its lanes read them in another order.

  // [FA2 Alg.1 l.14]  write O_i
  write_rows<C::kWarpQ, kHeadDim, 32>(rows<T>(p.o, b, h), sQ, r0, 0, i0, seq.num_queries, lane);
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::async_copy
