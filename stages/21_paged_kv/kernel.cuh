// 21_paged_kv, forward: K and V lie in pages, anywhere in memory.
#pragma once

#include <cfloat>
#include <cmath>

#include "device/constants.h"
#include "device/mma_fragments.h"
#include "device/ptx/cp_async.h"
#include "device/ptx/exp2.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mma.h"
#include "device/registers.h"
#include "device/shared_memory.h"
#include "device/split_work.h"
#include "device/swizzle.h"
#include "device/tensor.h"
#include "device/tile_mark.h"
#include "device/warp.h"
#include "pages.cuh"

namespace cuflash::paged_kv {

template <int kHeadDim>
struct Config {
  static constexpr int kStages = 3;  // buffers of K and of V
  static constexpr int kWarps = kHeadDim == 256 ? 2 : 4, kThreads = 32 * kWarps;
  static constexpr int kBlocks = kHeadDim <= 64 ? 4 : 2;  // an SM
  static constexpr int kBlockQ = kMmaM, kWarpKV = kMmaK, kBlockKV = kWarpKV * kWarps;
  static constexpr int kSteps = kHeadDim / 16;
  // What a lane holds: Q of the tile's rows; S of the warp's keys of a tile; O; a number for each
  // of the lane's two rows.
  using Queries = MmaA::Registers[kSteps];
  using Scores = MmaAccumulator::Registers[kWarpKV / kMmaN];
  using Output = MmaAccumulator::Registers[kHeadDim / kMmaN];
  using RowValues = float[2];
};

template <class T, int kHeadDim>
struct SharedStorage {
  using C = Config<kHeadDim>;
  using KVTile = SwizzledTile<T, C::kBlockKV, kHeadDim>;
  struct Tiles {
    KVTile sK[C::kStages], sV[C::kStages];
  };
  // The warps' results. A row is 32 bytes longer than its elements: no bank conflicts.
  struct Results {
    float sO[C::kWarps][kMmaM][kHeadDim + 8];
    float2 s_stats[C::kWarps][kMmaM];
  };
  union {
    Tiles tiles;
    Results results;  // of a piece, after its last tile
  };
};

// The query and the head of a row, and whether the row exists.
struct QueryRow {
  int query, head;
  bool exists;
};
__device__ __forceinline__ QueryRow query_row(const ForwardParams& p, const Piece& piece, int r) {
  const int group = group_size(p), row = piece.row_tile * kMmaM + r;
  return {row / group, piece.kv_head * group + row % group, row < group * p.seq_q};
}

// Loads Q of the tile's rows from global memory, each lane its own elements: all warps need them.
template <class C, class T>
__device__ __forceinline__ void load_queries(typename C::Queries& rQ, const ForwardParams& p,
                                             const Piece& piece, int lane) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const auto [query, head, exists] = query_row(p, piece, MmaA::row(lane, 2 * r));
    const auto gQ = rows<const T>(p.q, piece.batch, head);
#pragma unroll
    for (int n = 0; n < 2 * C::kSteps; ++n) {
      const int col = n * 8 + MmaA::col(lane, 0);
      rQ[n / 2][n % 2 * 2 + r] =
          exists ? __ldg(reinterpret_cast<const std::uint32_t*>(&gQ(query, col))) : 0;
    }
  }
}

// P = exp(S − m) for the warp's keys of a tile. Where m grows by more than the slack, O and l are
// rescaled first.
template <class C, class T>
__device__ __forceinline__ void softmax(MmaA::Registers& rP, const typename C::Scores& rS,
                                        typename C::Output& rO, typename C::RowValues& row_max,
                                        typename C::RowValues& row_sum, float scale_log2) {
  constexpr float kSlack = 8.f;  // O is rescaled when a term of P would exceed 2 to this power
  typename C::RowValues tile_max;
  bool grew = false;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float lane_max = fmaxf(rS[0][2 * r], rS[0][2 * r + 1]);
    for (const auto& s : rS) lane_max = fmaxf(lane_max, fmaxf(s[2 * r], s[2 * r + 1]));
    tile_max[r] = quad_max(lane_max) * scale_log2;
    grew |= tile_max[r] - row_max[r] > kSlack;
  }
  if (__any_sync(0xffffffffu, grew)) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float old_max = row_max[r];
      if (tile_max[r] - old_max > kSlack) row_max[r] = tile_max[r];
      const float o_scale = ptx::exp2(old_max - row_max[r]);
      row_sum[r] *= o_scale;
      for (auto& o : rO) o[2 * r] *= o_scale, o[2 * r + 1] *= o_scale;
    }
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int r = e % 2;
    const auto& s = rS[e / 2];
    const float x = ptx::exp2(fmaf(s[2 * r], scale_log2, -row_max[r]));
    const float y = ptx::exp2(fmaf(s[2 * r + 1], scale_log2, -row_max[r]));
    row_sum[r] += x;
    row_sum[r] += y;
    rP[e] = pack<T>(x, y);
  }
}

// Masks the scores of the tile's rows and the warp's keys, from key j0 on.
template <class C>
__device__ __forceinline__ void mask_scores(typename C::Scores& rS, const CachedSequence& seq,
                                            const int (&query)[2], int j0, int lane) {
#pragma unroll
  for (int n = 0; n < C::kWarpKV / kMmaN; ++n) {
#pragma unroll
    for (int e = 0; e < MmaAccumulator::kElements; ++e) {
      const int j = j0 + n * kMmaN + MmaAccumulator::col(lane, e);
      if (j >= seq.num_keys || !visible(seq, query[e / 2], j)) rS[n][e] = -INFINITY;
    }
  }
}

// Merges the warps' results, and writes O and LSE if the piece is all, or else a partial result.
template <class T, int kHeadDim, class Results>
__device__ __forceinline__ void write_piece(const ForwardParams& p, const Partials& partials,
                                            const Piece& piece, Results& results, int thread) {
  using C = Config<kHeadDim>;
  constexpr int kVectors = kHeadDim / 4;
#pragma unroll 1
  for (int n = thread; n < kMmaM * kVectors; n += C::kThreads) {
    const int r = n / kVectors, d = n % kVectors * 4;
    const auto [query, head, exists] = query_row(p, piece, r);
    if (!exists) break;  // nor do the rows below
    float row_max = -FLT_MAX, row_sum = 0.f;
    for (int warp = 0; warp < C::kWarps; ++warp) {
      row_max = fmaxf(row_max, results.s_stats[warp][r].x);
    }
    float4 o = {};
#pragma unroll
    for (int warp = 0; warp < C::kWarps; ++warp) {
      const float2 stats = results.s_stats[warp][r];
      const float weight = ptx::exp2(stats.x - row_max);
      const float4 x = *reinterpret_cast<const float4*>(&results.sO[warp][r][d]);
      row_sum = fmaf(weight, stats.y, row_sum);
      o = {fmaf(weight, x.x, o.x), fmaf(weight, x.y, o.y), fmaf(weight, x.z, o.z),
           fmaf(weight, x.w, o.w)};
    }
    if (!piece.is_all) {
      *reinterpret_cast<float4*>(partials.row<kHeadDim>(piece.slot, r) + d) = o;
      if (d == 0) partials.stat(piece.slot, r) = {row_max, row_sum};
      continue;
    }
    const float inverse = row_sum == 0.f ? 0.f : 1.f / row_sum;
    *reinterpret_cast<uint2*>(&rows<T>(p.o, piece.batch, head)(query, d)) = {
        pack<T>(o.x * inverse, o.y * inverse), pack<T>(o.z * inverse, o.w * inverse)};
    if (d == 0 && p.lse != nullptr) {
      p.lse[row_index(p, piece.batch, head, query)] = row_max * kLn2 + logf(row_sum);
    }
  }
}

// O = softmax(softmax_scale · Q Kᵀ) V for the pieces of a block. Each warp takes kWarpKV keys of
// each tile.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads, Config<kHeadDim>::kBlocks)
    attention(const __grid_constant__ ForwardParams p, const __grid_constant__ Division division,
              const __grid_constant__ Partials partials) {
  using C = Config<kHeadDim>;
  auto& storage = shared_storage<SharedStorage<T, kHeadDim>>();
  auto &sK = storage.tiles.sK, &sV = storage.tiles.sV;
  using Copied = CopiedRows<C, typename SharedStorage<T, kHeadDim>::KVTile>;
  const int thread = threadIdx.x, warp = uniform(thread / 32), lane = thread % 32;
  const float scale_log2 = p.softmax_scale * kLog2e;
  const int k0 = warp * C::kWarpKV;  // the warp's first key of a tile

  Pieces<C::kBlockKV> pieces(p, division, blockIdx.x, lane);
  Piece piece;
#pragma unroll 1
  while (pieces.next(piece)) {  // [FA2 Alg.1 l.1-3, 16]
    // Find the piece's queries, keys and tensors.
    const CachedSequence seq = cached_sequence(p, piece.batch);
    const auto gK = rows<const T>(p.k, 0, piece.kv_head);
    const auto gV = rows<const T>(p.v, 0, piece.kv_head);
    const Pages pages = pages_of(p, seq, piece.batch);
    const int first_query = query_row(p, piece, 0).query;
    const int last_query = min(query_row(p, piece, kMmaM - 1).query, seq.num_queries - 1);
    const Range keys = uniform(visible_keys(seq, first_query, last_query + 1));
    const Range seen = key_tiles<C::kBlockKV>(seq, first_query, last_query + 1);
    const Range tiles =
        uniform(Range{max(piece.tiles.begin, seen.begin), min(piece.tiles.end, seen.end)});
    const Copied copied(thread);
    typename Copied::PageNumbers numbers;  // of the tile that is requested next
    const auto load_numbers = [&](int tile) {
      load_page_numbers(numbers, pages, tile * C::kBlockKV, keys, copied);
    };
    // A tile's buffer depends on its number alone.
    const auto request = [&](int tile) {
      const int stage = tile % C::kStages;
      if (tile < tiles.end) {
        request_tiles<T>(sK[stage], sV[stage], gK, gV, p, pages, numbers, tile * C::kBlockKV, keys,
                         copied);
        load_numbers(tile + 1);
      }
      ptx::cp_async_commit();
    };

    // [FA2 Alg.1 l.4-7]  begin with the first K_j and V_j; load Q_i; O = 0, l = 0, m = -inf
    load_numbers(tiles.begin);
#pragma unroll
    for (int n = 0; n < C::kStages - 1; ++n) request(tiles.begin + n);
    typename C::Queries rQ;
    load_queries<C, T>(rQ, p, piece, lane);
    const int query[2] = {query_row(p, piece, lane / 4).query,
                          query_row(p, piece, lane / 4 + 8).query};
    typename C::Output rO = {};
    // row_max: m · scale_log2, to be subtracted in one instruction; row_sum: of this lane's columns
    // (m begins with a finite number: −∞ minus −∞ would be a NaN.)
    typename C::RowValues row_max = {-FLT_MAX, -FLT_MAX}, row_sum = {};

    // Walk over the tiles of keys.
#pragma unroll 1
    for (int tile = tiles.begin; tile < tiles.end; ++tile) {  // [FA2 Alg.1 l.6, 11]
      mark_tile("KV tile", tile);
      ptx::cp_async_wait<C::kStages - 2>();
      __syncthreads();  // All threads see this tile, and have read what is overwritten now.
      request(tile + C::kStages - 1);
      const int stage = tile % C::kStages, j0 = tile * C::kBlockKV + k0;

      // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // (kMmaM, kWarpKV) f32 a warp, registers
      typename C::Scores rS = {};
      const Chunks lane_K(sK[stage], k0 + LoadBTransposed::row(lane), LoadBTransposed::col(lane));
#pragma unroll
      for (int k = 0; k < C::kSteps; ++k) {
        std::uint32_t rK[4];
        ptx::ldmatrix_x4(rK, lane_K(0, k));
        ptx::mma_m16n8k16<T>(rS[0], rQ[k], {rK[0], rK[1]});
        ptx::mma_m16n8k16<T>(rS[1], rQ[k], {rK[2], rK[3]});
      }
      if (!all_visible(seq, first_query, last_query + 1 - first_query, j0, C::kWarpKV)) {
        mask_scores<C>(rS, seq, query, j0, lane);
      }
      // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
      MmaA::Registers rP;
      softmax<C, T>(rP, rS, rO, row_max, row_sum, scale_log2);
      // [FA2 Alg.1 l.10]  O = o_scale · O + P V_j    // (kMmaM, kHeadDim) f32 a warp, registers
      const Chunks lane_V(sV[stage], k0 + LoadB::row(lane), LoadB::col(lane));
#pragma unroll
      for (int n = 0; n < C::kSteps; ++n) {
        std::uint32_t rV[4];  // of 16 columns
        ptx::ldmatrix_x4_trans(rV, lane_V(0, n));
        ptx::mma_m16n8k16<T>(rO[2 * n], rP, {rV[0], rV[1]});
        ptx::mma_m16n8k16<T>(rO[2 * n + 1], rP, {rV[2], rV[3]});
      }
    }
    mark_tile(nullptr, 0);

    // Store the warps' results side by side.
    ptx::cp_async_wait<0>();
    __syncthreads();  // All warps have read the last tiles before the results overwrite them.
    auto& results = storage.results;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = MmaAccumulator::row(lane, 2 * r);
      // The rows of an invalid sequence become NaN.
      const float sum = seq.is_valid ? quad_sum(row_sum[r]) : NAN;
      if (lane % 4 == 0) results.s_stats[warp][row] = {row_max[r], sum};
#pragma unroll
      for (int n = 0; n < kHeadDim / kMmaN; ++n) {
        const int col = n * kMmaN + MmaAccumulator::col(lane, 0);
        *reinterpret_cast<float2*>(&results.sO[warp][row][col]) =
            *reinterpret_cast<const float2*>(&rO[n][2 * r]);
      }
    }
    __syncthreads();  // All results are written before threads merge them.
    // [FA2 Alg.1 l.12-15]  O = O / l, L = m + log l, if no other block has keys for these rows
    write_piece<T, kHeadDim>(p, partials, piece, results, thread);
    __syncthreads();  // All results are read before the next piece's tiles overwrite them.
  }
}  // [FA2 Alg.1 l.17]

// Merges the partial results of a row, in the order of its keys. A warp merges one row, whose slots
// it finds from all lengths, as the blocks did.
constexpr int kCombineThreads = 128;
template <class T, int kHeadDim>
__global__ void __launch_bounds__(kCombineThreads)
    combine(const __grid_constant__ ForwardParams p, const __grid_constant__ Division division,
            const __grid_constant__ Partials partials, std::int64_t threads) {
  using C = Config<kHeadDim>;
  if (thread_index() >= threads) return;
  const int lane = threadIdx.x % 32, group = group_size(p);
  const auto [batch, head, query, unused] = unravel(thread_index() / 32, p.heads_q, p.seq_q, 1);
  const int row = query * group + head % group;
  const std::int64_t row_tile = std::int64_t{head / group} * num_row_tiles(p) + row / kMmaM;
  const Slots slots = slots_of<C::kBlockKV>(p, division, batch, row_tile, lane);
  if (slots.count == 1) return;  // O is written.

  const int r = row % kMmaM;
  float row_max = -FLT_MAX, row_sum = 0.f;
  for (int n = lane; n < slots.count; n += 32) {
    row_max = fmaxf(row_max, partials.stat(slots[n], r).x);
  }
  row_max = warp_max(row_max);
  float o[kHeadDim / 32] = {};
#pragma unroll 4
  for (int n = 0; n < slots.count; ++n) {
    const float2 stats = partials.stat(slots[n], r);
    if (stats.y == 0.f) continue;  // The row sees no key of this part: its O need not be read.
    const float weight = ptx::exp2(stats.x - row_max);
    row_sum = fmaf(weight, stats.y, row_sum);
    const float* part = partials.row<kHeadDim>(slots[n], r);
#pragma unroll
    for (int e = 0; e < kHeadDim / 32; ++e) o[e] = fmaf(weight, part[e * 32 + lane], o[e]);
  }
  const float inverse = row_sum == 0.f ? 0.f : 1.f / row_sum;
  const auto gO = rows<T>(p.o, batch, head);
#pragma unroll
  for (int e = 0; e < kHeadDim / 32; ++e) {
    gO(query, e * 32 + lane) = static_cast<T>(o[e] * inverse);
  }
  if (lane == 0 && p.lse != nullptr) {
    p.lse[row_index(p, batch, head, query)] = row_max * kLn2 + logf(row_sum);
  }
}

}  // namespace cuflash::paged_kv
