// 10_tma: the hardware's copy unit (TMA) brings whole tiles. One thread requests them, and barriers
// in shared memory (mbarrier) tell when a buffer is full and when it is empty.
#pragma once

#include <cfloat>
#include <cmath>
#include <type_traits>

#include "device/block_order.h"
#include "device/constants.h"
#include "device/epilogue.h"
#include "device/host/tile_map.h"
#include "device/index.h"
#include "device/mask_scores.h"
#include "device/mma_fragments.h"
#include "device/ptx/exp2.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/mma.h"
#include "device/ptx/tensor_copy.h"
#include "device/registers.h"
#include "device/shared_memory.h"
#include "device/swizzle.h"
#include "device/tensor.h"
#include "device/tile_mark.h"
#include "device/warp.h"

namespace cuflash::tma {

// The shape of a block's work.
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
  std::uint64_t q_full;
  std::uint64_t k_full[C::kStages], v_full[C::kStages];    // a copy has arrived
  std::uint64_t k_empty[C::kStages], v_empty[C::kStages];  // all warps have read it
};

// The buffer of the nth tile that a block copies, and the parity of its barriers' phase: the buffer
// holds every kStages-th tile.
struct Slot {
  int stage;
  unsigned phase;
};
template <int kStages>
__device__ __forceinline__ Slot slot_of(int n) {
  return {n % kStages, static_cast<unsigned>(n / kStages) % 2};
}

// Starts the copies of a tile: for each panel a box with the rows of a head from `first` on. Rows
// past the end become zeros.
template <class T, int kRows, int kHeadDim>
__device__ __forceinline__ void request_tile(SwizzledTile<T, kRows, kHeadDim>& tile,
                                             const TileMap& map, int first, int head, int batch,
                                             std::uint64_t& full) {
  using Tile = SwizzledTile<T, kRows, kHeadDim>;
  ptx::mbarrier_arrive_expect_tx(&full, sizeof(tile.panels));
#pragma unroll
  for (int panel = 0; panel < Tile::kPanels; ++panel) {
    ptx::tensor_copy(tile.panels[panel], map, panel * Tile::kPanelCols, first, head, batch, &full);
  }
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
    attention(const __grid_constant__ ForwardParams p, const __grid_constant__ ForwardMaps maps) {
  using C = Config<kHeadDim>;
  auto& storage = shared_storage<SharedStorage<T, kHeadDim>>();
  auto& sQ = storage.sQ;
  auto &sK = storage.sK, &sV = storage.sV;
  auto &k_full = storage.k_full, &v_full = storage.v_full;
  auto &k_empty = storage.k_empty, &v_empty = storage.v_empty;

  // Find this block's head and queries, and this warp's queries.
  const int thread = threadIdx.x, warp = uniform(thread / 32), r0 = uniform(warp * C::kWarpQ);
  const Place place = place_of_block(p, num_tiles(p.seq_q, C::kBlockQ));
  const int b = place.batch, h = place.head, i0 = place.row * C::kBlockQ;  // [FA2 Alg.1 l.1-3]
  const Sequence seq = sequence(p, b);
  const int hk = uniform(kv_head(p, h));

  // Find the tiles of keys, and those of them that need no mask.
  const Range keys = visible_keys(seq, i0, i0 + C::kBlockQ);
  const Range full = keys_visible_to_all(seq, i0, i0 + C::kBlockQ);
  const int first_tile = keys.begin / C::kBlockKV;
  const int num_tiles = keys.end > keys.begin ? (keys.end - 1) / C::kBlockKV + 1 : first_tile;
  const Range no_mask = {(full.begin + C::kBlockKV - 1) / C::kBlockKV, full.end / C::kBlockKV};

  // Initialise the barriers.
  if (thread == 0) {
    ptx::mbarrier_init(&storage.q_full, 1);
#pragma unroll
    for (int stage = 0; stage < C::kStages; ++stage) {
      ptx::mbarrier_init(&k_full[stage], 1);
      ptx::mbarrier_init(&v_full[stage], 1);
      ptx::mbarrier_init(&k_empty[stage], C::kWarps);
      ptx::mbarrier_init(&v_empty[stage], C::kWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();  // The barriers are initialised before a thread uses one.

  // [FA2 Alg.1 l.4-7]  load Q_i; O = 0, l = 0, m = -inf; begin with the last K_j and V_j
  const auto slot = [&](int tile) { return slot_of<C::kStages>(num_tiles - 1 - tile); };
  const auto request_k = [&](int tile) {
    const Slot to = slot(tile);
    ptx::mbarrier_wait(&k_empty[to.stage], to.phase ^ 1);  // All warps have read what was there.
    ptx::fence_proxy_async();                              // The next K follows their reads.
    request_tile(sK[to.stage], maps.k, tile * C::kBlockKV, hk, b, k_full[to.stage]);
  };
  const auto request_v = [&](int tile) {
    const Slot to = slot(tile);
    ptx::mbarrier_wait(&v_empty[to.stage], to.phase ^ 1);  // All warps have read what was there.
    ptx::fence_proxy_async();                              // The next V follows their reads.
    request_tile(sV[to.stage], maps.v, tile * C::kBlockKV, hk, b, v_full[to.stage]);
  };
  if (thread == 0) request_tile(sQ, maps.q, i0, h, b, storage.q_full);
  if (thread == 0 && num_tiles > first_tile) {
    request_k(num_tiles - 1);
    request_v(num_tiles - 1);
  }
  typename C::Output rO = {};
  // row_max: m · scale_log2, to be subtracted in one instruction; row_sum: of this lane's columns
  typename C::RowValues row_max, row_sum = {};
  for (auto& m : row_max) m[0] = m[1] = -FLT_MAX;  // finite: −∞ minus −∞ would be a NaN
  const float scale_log2 = p.softmax_scale * kLog2e;

  ptx::mbarrier_wait(&storage.q_full, 0);  // Q has arrived.
  const Chunks lane_Q(sQ, r0 + LoadA::row(thread % 32), LoadA::col(thread % 32));
  typename C::Queries rQ;
#pragma unroll
  for (int m = 0; m < C::kStrips; ++m) {
#pragma unroll
    for (int k = 0; k < C::kQSteps; ++k) ptx::ldmatrix_x4(rQ[m][k], lane_Q(m, k));
  }

  // Adds a tile to the softmax and O. Thread 0 requests the next tile, which is tile - 1.
  const auto take_tile = [&](auto masked, int tile) {
    constexpr bool kMasked = decltype(masked)::value;
    mark_tile("KV tile", tile);
    const int lane = opaque(thread) % 32u, j0 = tile * C::kBlockKV;
    const auto [stage, phase] = slot(tile);
    const bool requests = thread == 0 && tile > first_tile;
    // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // (kWarpQ, kBlockKV) f32 a warp, registers
    ptx::mbarrier_wait(&k_full[stage], phase);  // K_j has arrived.
    typename C::Scores rS = {};
    add_scores<C, T>(rS, rQ, sQ, sK[stage], r0, lane);
    __syncwarp();  // All lanes have read K_j before one says so.
    if (lane == 0) ptx::mbarrier_arrive(&k_empty[stage]);
    if (requests) request_k(tile - 1);
    if (C::kStages > 1 && requests) request_v(tile - 1);
    ptx::mbarrier_wait(&v_full[stage], phase);  // V_j has arrived.
    // Mask the scores.
    if constexpr (kMasked) {
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
    __syncwarp();  // All lanes have read V_j before one says so.
    if (lane == 0) ptx::mbarrier_arrive(&v_empty[stage]);
    if (C::kStages == 1 && requests) request_v(tile - 1);
  };

  // [FA2 Alg.1 l.6, 11]  Walk from the last tile to the first: the diagonal and the tail, the tiles
  // without a mask, the window's left edge.
  int tile = num_tiles - 1;
  while (tile >= first_tile) {
#pragma unroll 1
    for (; tile >= first_tile && (tile >= no_mask.end || tile < no_mask.begin); --tile) {
      take_tile(std::true_type{}, tile);
    }
#pragma unroll 1
    for (; tile >= first_tile && tile >= no_mask.begin && tile < no_mask.end; --tile) {
      take_tile(std::false_type{}, tile);
    }
  }
  mark_tile(nullptr, 0);

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

}  // namespace cuflash::tma
