// 09_async_copy, backward: five products in one kernel. A block owns keys and streams queries past
// them; what it adds to dQ goes to global memory in f32.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/ptx/red.h"
#include "kernel.cuh"

namespace cuflash::async_copy {

// The shape of a block's work.
struct BackwardShape {
  int strips;    // of 16 keys a warp: two use each operand of Q and dO that the warp loads
  int warps;     // one above the other, along the keys
  int streamed;  // queries of a tile
  int dq_warps;  // along the queries in dQ = dS K; the others divide head_dim
  int blocks;    // an SM
};
constexpr BackwardShape backward_shape(int head_dim) {
  switch (head_dim) {
    case 32:
      return {2, 4, 64, 4, 2};  // 65 KB
    case 64:
      return {2, 4, 64, 2, 2};  // 97 KB; dK and dV take 128 registers
    case 96:
      return {1, 4, 64, 4, 2};  // 89 KB; dK and dV take 96 registers
    case 128:
      return {1, 8, 64, 2, 1};  // 161 KB; dK and dV take 128 registers
    default:
      return {1, 4, 32, 1, 1};  // 137 KB; dK and dV take 128 registers each
  }
}

template <int kHeadDim>
struct BackwardConfig {
  static constexpr BackwardShape kShape = backward_shape(kHeadDim);
  static constexpr int kStrips = kShape.strips, kWarps = kShape.warps, kThreads = 32 * kWarps;
  static constexpr int kWarpKeys = kMmaM * kStrips, kOwned = kWarpKeys * kWarps;
  static constexpr int kStreamed = kShape.streamed, kPart = 32;      // queries weighed together
  using Scores = MmaAccumulator::Registers[kStrips][kPart / kMmaN];  // of a part
  using Operand = MmaA::Registers[kPart / 16][kStrips];              // such scores, rounded
  using Gradient = MmaAccumulator::Registers[kStrips][kHeadDim / kMmaN];
  // A warp's part of a tile of dQ.
  static constexpr int kDqRows = kStreamed / kShape.dq_warps;
  static constexpr int kDqCols = kHeadDim * kShape.dq_warps / kWarps;
  static constexpr int kDqPart = kDqRows * kDqCols;  // floats
  using QueryGradient = MmaAccumulator::Registers[kDqRows / kMmaM][kDqCols / kMmaN];
  // With head_dim 256, the registers hold dK or dV: one kernel computes dV, and one, which computes
  // S again, dK and dQ.
  static constexpr bool kApart = kHeadDim > 128;
};

template <class T, int kHeadDim>
struct BackwardStorage {
  using C = BackwardConfig<kHeadDim>;
  using KVTile = SwizzledTile<T, C::kOwned, kHeadDim>;
  using QTile = SwizzledTile<T, C::kStreamed, kHeadDim>;
  using ScoreTile = SwizzledTile<T, C::kOwned, C::kStreamed>;
  KVTile sK, sV;        // sV: at the end, dK and then dV
  QTile sQ[2], sdO[2];  // of two tiles of queries, in turn
  ScoreTile sdS[2];     // dSᵀ of the same
  alignas(16) float s_lse[2][C::kStreamed], s_delta[2][C::kStreamed];
};
template <class T, int kHeadDim>
using QueryGradientStorage = typename BackwardStorage<T, kHeadDim>::QTile;

// What the kernels hand on, for the rows of whole tiles of queries: LSE · log2 e, delta, and dQ in
// f32, its tiles in the order of warps and their accumulators.
struct Workspace {
  float *lse, *delta, *dq;
  int q_tiles;             // of a head
  std::int64_t all_tiles;  // of all heads
  int splits;              // blocks that share the keys of a head
  int slices;              // copies of dQ: one, or one for each split
};

// How many splits a deterministic call makes of the keys of a head: as many as fill the 132 SMs of
// an H100 or H200, at most 16. It depends on no length, so that the workspace grows as they do.
template <int kHeadDim>
int most_slices(const Problem& p) {
  constexpr int kBlocks = 132 * BackwardConfig<kHeadDim>::kShape.blocks, kMost = 16;
  const std::int64_t heads = std::int64_t{p.batch} * p.heads_kv;
  return heads >= kBlocks ? 1 : std::min(kMost, kBlocks / static_cast<int>(heads));
}
template <int kHeadDim>
Workspace workspace(const BackwardParams& p) {
  using C = BackwardConfig<kHeadDim>;
  Workspace work;
  work.q_tiles = num_tiles(p.seq_q, C::kStreamed);
  work.all_tiles = std::int64_t{p.batch} * p.heads_q * work.q_tiles;
  work.splits = num_tiles(p.seq_kv, C::kOwned);
  work.slices = 1;
  if (p.deterministic != 0) {
    work.splits = work.slices = std::min(work.splits, most_slices<kHeadDim>(p));
  }
  work.lse = static_cast<float*>(p.workspace);
  work.delta = work.lse + work.all_tiles * C::kStreamed;
  work.dq = work.delta + work.all_tiles * C::kStreamed;
  return work;
}
// For either schedule: a problem does not say which.
template <int kHeadDim>
std::size_t workspace_bytes(const Problem& p) {
  using C = BackwardConfig<kHeadDim>;
  const std::size_t tiles = std::size_t{1} * p.batch * p.heads_q * num_tiles(p.seq_q, C::kStreamed);
  const std::size_t floats = 2 + std::size_t{kHeadDim} * most_slices<kHeadDim>(p);
  return tiles * C::kStreamed * floats * sizeof(float);
}

// Which gradients a kernel computes: all, those that are not null, or of these only some.
enum class Gradients { kAll, kGiven, kOnlyValue, kNotValue };

// rS = X Yᵀ for kWarpKeys rows of X, from r0 on, and a part of the tile Y
// (kWarpKeys, kPart) f32, registers
template <class T, int kHeadDim, class XTile, class YTile>
__device__ __forceinline__ void score_product(typename BackwardConfig<kHeadDim>::Scores& rS,
                                              XTile& sX, YTile& sY, int r0, int part, int lane) {
  using C = BackwardConfig<kHeadDim>;
  const Chunks lane_X(sX, r0 + LoadA::row(lane), LoadA::col(lane));
  const Chunks lane_Y(sY, LoadBTransposed::row(lane), LoadBTransposed::col(lane));
#pragma unroll
  for (int m = 0; m < C::kStrips; ++m) {
#pragma unroll
    for (int n = 0; n < C::kPart / kMmaN; ++n) {
      for (float& s : rS[m][n]) s = 0.f;
    }
  }
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    MmaA::Registers rX[C::kStrips];
#pragma unroll
    for (int m = 0; m < C::kStrips; ++m) ptx::ldmatrix_x4(rX[m], lane_X(m, k));
#pragma unroll
    for (int n = 0; n < C::kPart / 16; ++n) {
      std::uint32_t rY[4];  // of 16 queries
      ptx::ldmatrix_x4(rY, lane_Y(part * (C::kPart / 16) + n, k));
#pragma unroll
      for (int m = 0; m < C::kStrips; ++m) {
        ptx::mma_m16n8k16<T>(rS[m][2 * n], rX[m], {rY[0], rY[1]});
        ptx::mma_m16n8k16<T>(rS[m][2 * n + 1], rX[m], {rY[2], rY[3]});
      }
    }
  }
}

// rG += W Y for the weights of a part, in registers, and that part of the tile Y
// (kWarpKeys, kHeadDim) f32, registers
template <class T, int kHeadDim, class YTile>
__device__ __forceinline__ void gradient_product(typename BackwardConfig<kHeadDim>::Gradient& rG,
                                                 typename BackwardConfig<kHeadDim>::Operand& rW,
                                                 YTile& sY, int part, int lane) {
  using C = BackwardConfig<kHeadDim>;
  const Chunks lane_Y(sY, LoadB::row(lane), LoadB::col(lane));
#pragma unroll
  for (int k = 0; k < C::kPart / 16; ++k) {
#pragma unroll
    for (int n = 0; n < kHeadDim / 16; ++n) {
      std::uint32_t rY[4];  // of 16 columns
      ptx::ldmatrix_x4_trans(rY, lane_Y(part * (C::kPart / 16) + k, n));
#pragma unroll
      for (int m = 0; m < C::kStrips; ++m) {
        ptx::mma_m16n8k16<T>(rG[m][2 * n], rW[k][m], {rY[0], rY[1]});
        ptx::mma_m16n8k16<T>(rG[m][2 * n + 1], rW[k][m], {rY[2], rY[3]});
      }
    }
  }
}

// Rounds accumulators, scaled, to a tile, from (row, col) on.
template <class T, class Tile, int kStrips, int kFragments>
__device__ __forceinline__ void store_rounded(Tile& tile, int row, int col,
                                              const float (&r)[kStrips][kFragments][4], float scale,
                                              int lane) {
#pragma unroll
  for (int m = 0; m < kStrips; ++m) {
#pragma unroll
    for (int n = 0; n < kFragments; ++n) {
#pragma unroll
      for (int e = 0; e < MmaAccumulator::kElements; e += 2) {
        auto& to = tile(row + m * kMmaM + MmaAccumulator::row(lane, e),
                        col + n * kMmaN + MmaAccumulator::col(lane, e));
        *reinterpret_cast<std::uint32_t*>(&to) =
            pack<T>(r[m][n][e] * scale, r[m][n][e + 1] * scale);
      }
    }
  }
}

// Writes the rows [r0, r0 + kCount) of a tile, whose row 0 is row `first` of the head, a thread a
// chunk of each panel.
template <int kCount, int kThreads, class T, int kRows, int kHeadDim>
__device__ __forceinline__ void write_rows(Rows<T> g, SwizzledTile<T, kRows, kHeadDim>& tile,
                                           int r0, int first, int num_rows, unsigned thread) {
  using Tile = SwizzledTile<T, kRows, kHeadDim>;
  constexpr int kStep = kThreads / Tile::kChunks;  // rows that the threads write at a time
  const int d = thread % Tile::kChunks * 8;
#pragma unroll
  for (int n = 0; n < kCount; n += kStep) {
    const int r = r0 + n + thread / Tile::kChunks;
    if (first + r >= num_rows) continue;
#pragma unroll
    for (int c = 0; c < kHeadDim; c += Tile::kPanelCols) {
      *reinterpret_cast<uint4*>(&g(first + r, d + c)) =
          *reinterpret_cast<const uint4*>(&tile(r, d + c));
    }
  }
}

template <int kHeadDim>
constexpr int kDeltaLanes = kHeadDim == 96 ? 16 : kHeadDim / 8;

// delta = rowsum(dO ∘ O) and LSE · log2 e of a row, and zeros for its dQ. kDeltaLanes lanes share a
// row; `count` is their number for the rows of whole tiles.
template <class T, int kHeadDim>
__global__ void row_delta(const __grid_constant__ BackwardParams p,
                          const __grid_constant__ Workspace work, std::int64_t count) {
  constexpr int kLanes = kDeltaLanes<kHeadDim>, kVectors = kHeadDim / 8;
  const std::int64_t n = thread_index();
  if (n >= count) return;
  const auto [b, h, i, c] =
      unravel(n, p.heads_q, work.q_tiles * BackwardConfig<kHeadDim>::kStreamed, kLanes);
  const Sequence seq = sequence(p, b);
  float sum = 0.f;
  if (i < seq.num_queries && c < kVectors) {
    const uint4 o = *reinterpret_cast<const uint4*>(&rows<const T>(p.o, b, h)(i, c * 8));
    const uint4 d_o = *reinterpret_cast<const uint4*>(&rows<const T>(p.d_o, b, h)(i, c * 8));
    const std::uint32_t x[] = {o.x, o.y, o.z, o.w}, y[] = {d_o.x, d_o.y, d_o.z, d_o.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 u = unpack<T>(x[e]), v = unpack<T>(y[e]);
      sum += u.x * v.x + u.y * v.y;
    }
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  const std::int64_t row = n / kLanes;
  if (c == 0) {
    const float lse = i < seq.num_queries ? p.lse[row_index(p, b, h, i)] : -INFINITY;
    work.lse[row] = lse == -INFINITY ? INFINITY : lse * kLog2e;  // P = 0 where no key is seen.
    work.delta[row] = sum;
  }
  if (p.dq.data == nullptr || c >= kVectors) return;
  const std::int64_t slice = work.all_tiles * BackwardConfig<kHeadDim>::kStreamed * kVectors;
  float4* zeros = reinterpret_cast<float4*>(work.dq) + row * (2 * kVectors) + c;
  for (int s = 0; s < work.slices; ++s, zeros += 2 * slice) {
    zeros[0] = float4{};
    zeros[kVectors] = float4{};
  }
}

// dK = softmax_scale · dSᵀ Q and dV = Pᵀ dO, summed over the query heads that share the KV head,
// and dS K, added to dQ. A block computes kOwned rows of dK and dV at a time.
template <class T, int kHeadDim, Gradients kGradients>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads,
                                  BackwardConfig<kHeadDim>::kShape.blocks)
    gradients(const __grid_constant__ BackwardParams p, const __grid_constant__ Workspace work) {
  using C = BackwardConfig<kHeadDim>;
  constexpr int kPartSteps = C::kPart / 16;
  constexpr bool kAll = kGradients == Gradients::kAll;
  auto& storage = shared_storage<BackwardStorage<T, kHeadDim>>();
  auto &sK = storage.sK, &sV = storage.sV;
  auto &sQ = storage.sQ, &sdO = storage.sdO;
  auto& sdS = storage.sdS;

  // Find this block's KV head and tensors, and this warp's keys and part of dQ.
  const int thread = threadIdx.x, warp = uniform(thread / 32);
  const auto [b, h_kv, split, unused] =
      uniform(unravel(blockIdx.x, p.heads_kv, work.splits, 1));  // [FA2 Alg.2 l.1-3]
  const Sequence seq = sequence(p, b);
  const int group = p.heads_q / p.heads_kv, r0 = warp * C::kWarpKeys;
  const int q0 = warp % C::kShape.dq_warps * C::kDqRows;
  const int d0 = warp / C::kShape.dq_warps * C::kDqCols;
  const float scale_log2 = p.softmax_scale * kLog2e;
  const bool wants_dv = kAll || (kGradients != Gradients::kNotValue && p.dv.data != nullptr);
  const bool wants_dk = kAll || (kGradients != Gradients::kOnlyValue && p.dk.data != nullptr);
  const bool wants_dq = kAll || (kGradients != Gradients::kOnlyValue && p.dq.data != nullptr);

  // [FA2 Alg.2 l.9]  load Q_i, dO_i, LSE_i, delta_i
  const auto tile_index = [&](int h, int tile) {
    return (std::int64_t{b} * p.heads_q + h) * work.q_tiles + tile;
  };
  const auto request_queries = [&](int h, int tile, int to) {
    const int i0 = tile * C::kStreamed;
    request_tile<false, C::kThreads>(sQ[to], rows<const T>(p.q, b, h), i0, seq.num_queries, thread);
    request_tile<false, C::kThreads>(sdO[to], rows<const T>(p.d_o, b, h), i0, seq.num_queries,
                                     thread);
    constexpr unsigned kVectors = C::kStreamed / 4;
    const unsigned n = opaque(thread), of_row = n % kVectors * 4;
    const std::int64_t row = tile_index(h, tile) * C::kStreamed + of_row;
    if (n < kVectors) ptx::cp_async_16(&storage.s_lse[to][of_row], work.lse + row);
    if (n / kVectors == 1) ptx::cp_async_16(&storage.s_delta[to][of_row], work.delta + row);
  };

  // [FA2 Alg.2 l.15]  dQ_i = dQ_i + dS K_j    // (kDqRows, kDqCols) f32 a warp, registers
  const auto add_to_dq = [&](float* to, int stage) {
    const int lane = opaque(thread) % 32u;
    typename C::QueryGradient rdQ = {};
    const Chunks lane_dS(sdS[stage], LoadATransposed::row(lane), q0 + LoadATransposed::col(lane));
    const Chunks lane_K(sK, LoadB::row(lane), d0 + LoadB::col(lane));
#pragma unroll
    for (int k = 0; k < C::kOwned / 16; ++k) {
      MmaA::Registers rdS[C::kDqRows / kMmaM];
#pragma unroll
      for (int m = 0; m < C::kDqRows / kMmaM; ++m) {
        ptx::ldmatrix_x4_trans(rdS[m], lane_dS(k, m));
      }
#pragma unroll
      for (int n = 0; n < C::kDqCols / 16; ++n) {
        std::uint32_t rK[4];  // of 16 columns
        ptx::ldmatrix_x4_trans(rK, lane_K(k, n));
#pragma unroll
        for (int m = 0; m < C::kDqRows / kMmaM; ++m) {
          ptx::mma_m16n8k16<T>(rdQ[m][2 * n], rdS[m], {rK[0], rK[1]});
          ptx::mma_m16n8k16<T>(rdQ[m][2 * n + 1], rdS[m], {rK[2], rK[3]});
        }
      }
    }
    for (const auto& strip : rdQ) {
      for (const auto& fragment : strip) {
        ptx::red_add(to, lane, fragment);
        to += kMmaM * kMmaN;
      }
    }
  };

  // Walk over the tiles of keys of this split, to and fro, so that splits get as much work where a
  // mask lets the tiles see different numbers of queries.
  for (int round = 0;; ++round) {
    const int block = round * work.splits + (round % 2 == 0 ? split : work.splits - 1 - split);
    const int j0 = block * C::kOwned;  // [FA2 Alg.2 l.5]
    if (j0 >= seq.num_keys) break;
    const Range queries = visible_queries(seq, j0, j0 + C::kOwned);
    const int first_tile = queries.begin / C::kStreamed;
    const int end_tile =
        queries.end > queries.begin ? (queries.end - 1) / C::kStreamed + 1 : first_tile;
    const int num_steps = (end_tile - first_tile) * group;
    int h = h_kv * group, tile = first_tile;

    // [FA2 Alg.2 l.6-7]  load K_j, V_j; dK = 0, dV = 0
    __syncthreads();  // All have read K and V of the round before.
    request_tile<false, C::kThreads>(sK, rows<const T>(p.k, b, h_kv), j0, seq.num_keys, thread);
    request_tile<false, C::kThreads>(sV, rows<const T>(p.v, b, h_kv), j0, seq.num_keys, thread);
    if (num_steps > 0) request_queries(h, tile, 0);
    ptx::cp_async_commit();
    typename C::Gradient rdK = {}, rdV = {};
    float* dq = nullptr;  // where the dQ of the tile before goes

    const auto take_tile = [&](auto masked, int step) {
      constexpr bool kMasked = decltype(masked)::value;
      const int stage = step % 2, lane = opaque(thread) % 32u;
      const int i0 = tile * C::kStreamed;
      if (wants_dq && (!kMasked || step > 0)) add_to_dq(dq, stage ^ 1);
#pragma unroll
      for (int part = 0; part < C::kStreamed / C::kPart; ++part) {
        const int first = part * C::kPart;
        // [FA2 Alg.2 l.10]  Sᵀ = K_j Q_iᵀ
        typename C::Scores rS;
        score_product<T, kHeadDim>(rS, sK, sQ[stage], r0, part, lane);
        // Mask the scores.
        if constexpr (kMasked) {
#pragma unroll
          for (int m = 0; m < C::kStrips; ++m) {
#pragma unroll
            for (int n = 0; n < C::kPart / kMmaN; ++n) {
#pragma unroll
              for (int e = 0; e < MmaAccumulator::kElements; ++e) {
                const int j = j0 + r0 + m * kMmaM + MmaAccumulator::row(lane, e);
                const int i = i0 + first + n * kMmaN + MmaAccumulator::col(lane, e);
                if (j >= seq.num_keys || !visible(seq, i, j)) rS[m][n][e] = -INFINITY;
              }
            }
          }
        }

        // [FA2 Alg.2 l.11]  P = exp(S − LSE)
        typename C::Operand rP;
#pragma unroll
        for (int n = 0; n < C::kPart / kMmaN; ++n) {
          const float2 lse = *reinterpret_cast<const float2*>(
              &storage.s_lse[stage][first + n * kMmaN + MmaAccumulator::col(lane, 0)]);
#pragma unroll
          for (int m = 0; m < C::kStrips; ++m) {
#pragma unroll
            for (int e = 0; e < MmaAccumulator::kElements; ++e) {
              float& s = rS[m][n][e];
              s = ptx::exp2(fmaf(s, scale_log2, e % 2 == 0 ? -lse.x : -lse.y));
            }
          }
        }
#pragma unroll
        for (int k = 0; k < kPartSteps; ++k) {
#pragma unroll
          for (int m = 0; m < C::kStrips; ++m) {
            to_operand<T>(rP[k][m], rS[m][2 * k], rS[m][2 * k + 1]);
          }
        }

        // [FA2 Alg.2 l.12]  dV = dV + Pᵀ dO_i
        if (wants_dv) gradient_product<T, kHeadDim>(rdV, rP, sdO[stage], part, lane);
        if (!wants_dk && !wants_dq) continue;

        // [FA2 Alg.2 l.13-14]  dPᵀ = V_j dO_iᵀ, dS = P ∘ (dP − delta)
        typename C::Scores rdP;
        score_product<T, kHeadDim>(rdP, sV, sdO[stage], r0, part, lane);
        typename C::Operand rdS;
#pragma unroll
        for (int k = 0; k < kPartSteps; ++k) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int n = 2 * k + e / 2, c = first + n * kMmaN + MmaAccumulator::col(lane, 0);
            const float2 delta = *reinterpret_cast<const float2*>(&storage.s_delta[stage][c]);
#pragma unroll
            for (int m = 0; m < C::kStrips; ++m) {
              const float2 prob = unpack<T>(rP[k][m][e]);
              const float* dp = &rdP[m][n][e % 2 * 2];
              rdS[k][m][e] = pack<T>(prob.x * (dp[0] - delta.x), prob.y * (dp[1] - delta.y));
              const int r = r0 + m * kMmaM + MmaAccumulator::row(lane, e % 2 * 2);
              *reinterpret_cast<std::uint32_t*>(&sdS[stage](r, c)) = rdS[k][m][e];
            }
          }
        }

        // [FA2 Alg.2 l.16]  dK = dK + dSᵀ Q_i
        if (wants_dk) gradient_product<T, kHeadDim>(rdK, rdS, sQ[stage], part, lane);
      }
    };

    // [FA2 Alg.2 l.8, 17]  Stream the queries of each head that shares the KV head.
    const int slice = split % work.slices;
#pragma unroll 1
    for (int step = 0; step < num_steps; ++step) {
      mark_tile("Q tile", tile);
      ptx::cp_async_wait<0>();
      __syncthreads();  // This tile has arrived for all, and dS of the one before; all have read
                        // what is overwritten now.
      const bool last_of_head = tile + 1 == end_tile;
      const int next_h = last_of_head ? h + 1 : h, next = last_of_head ? first_tile : tile + 1;
      if (step + 1 < num_steps) request_queries(next_h, next, (step + 1) % 2);
      ptx::cp_async_commit();
      if (step > 0 && all_visible(seq, tile * C::kStreamed, C::kStreamed, j0, C::kOwned)) {
        take_tile(std::false_type{}, step);
      } else {
        take_tile(std::true_type{}, step);
      }
      dq = work.dq +
           ((slice * work.all_tiles + tile_index(h, tile)) * C::kWarps + warp) * C::kDqPart;
      h = next_h, tile = next;
    }
    mark_tile(nullptr, 0);
    ptx::cp_async_wait<0>();
    __syncthreads();  // dS of the last tile is written; where there is no tile, V has arrived.
    if (wants_dq && num_steps > 0) add_to_dq(dq, (num_steps - 1) % 2);

    // [FA2 Alg.2 l.18]  write dK_j, dV_j    // by way of the rows of sV that this warp alone reads
    const int lane = opaque(thread) % 32u;
    if (wants_dk) {
      store_rounded<T>(sV, r0, 0, rdK, p.softmax_scale, lane);
      __syncwarp();  // The rows are written before lanes read them in another order.
      write_rows<C::kWarpKeys, 32>(rows<T>(p.dk, b, h_kv), sV, r0, j0, seq.num_keys, lane);
      __syncwarp();  // They are read before they are overwritten.
    }
    if (wants_dv) {
      store_rounded<T>(sV, r0, 0, rdV, 1.f, lane);
      __syncwarp();  // As above.
      write_rows<C::kWarpKeys, 32>(rows<T>(p.dv, b, h_kv), sV, r0, j0, seq.num_keys, lane);
    }
  }
}  // [FA2 Alg.2 l.19-20]

// dQ = softmax_scale · dQ, rounded, from the sum of its slices. A block writes a tile.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads)
    query_gradient(const __grid_constant__ BackwardParams p,
                   const __grid_constant__ Workspace work) {
  using C = BackwardConfig<kHeadDim>;
  auto& sdQ = shared_storage<QueryGradientStorage<T, kHeadDim>>();
  const unsigned thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, tile, unused] = unravel(blockIdx.x, p.heads_q, work.q_tiles, 1);

  // Sum the slices in order.
  typename C::QueryGradient rdQ = {};
  for (int slice = 0; slice < work.slices; ++slice) {
    const float* from =
        work.dq + ((slice * work.all_tiles + blockIdx.x) * C::kWarps + warp) * C::kDqPart;
    for (auto& strip : rdQ) {
      for (auto& fragment : strip) {
        ptx::add_from(from, lane, fragment);
        from += kMmaM * kMmaN;
      }
    }
  }
  // Write the tile by rows.
  store_rounded<T>(sdQ, warp % C::kShape.dq_warps * C::kDqRows,
                   warp / C::kShape.dq_warps * C::kDqCols, rdQ, p.softmax_scale, lane);
  __syncthreads();  // The tile is written before threads read rows of it.
  write_rows<C::kStreamed, C::kThreads>(rows<T>(p.dq, b, h), sdQ, 0, tile * C::kStreamed,
                                        sequence(p, b).num_queries, thread);
}

}  // namespace cuflash::async_copy
