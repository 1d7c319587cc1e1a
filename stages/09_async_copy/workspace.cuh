// 09_async_copy, backward: the shape of the work, and the kernels before and after
// kernel_bwd.cuh's. dQ passes through the workspace in f32, laid out as the warps' accumulators.
#pragma once

#include <algorithm>
#include <cmath>

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
      return {1, 4, 32, 2, 1};  // 137 KB; dK and dV take 128 registers each
  }
}

template <int kHeadDim>
struct BackwardConfig {
  static constexpr BackwardShape kShape = backward_shape(kHeadDim);
  static constexpr int kStrips = kShape.strips, kWarps = kShape.warps, kThreads = 32 * kWarps;
  static constexpr int kWarpKeys = kMmaM * kStrips, kOwned = kWarpKeys * kWarps;
  static constexpr int kStreamed = kShape.streamed;
  // Queries whose scores are in registers at a time. Before compute capability 9.0 fewer numbers
  // live in the registers that a warp shares, so that with head_dim 64 the scores of 32 queries do
  // not fit beside dK and dV.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr int kPart = kHeadDim == 64 ? 16 : 32;
#else
  static constexpr int kPart = 32;
#endif
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

// P is rounded to T for the product with dO, and dS is computed from the rounded P. Among many
// keys, most weights are so small that few of their bits would be left in f16, which loses
// precision below 2^-14. So P is kept 2^10 times as large.
constexpr int kLog2OfP = 10;
constexpr float kSmallP = 1.f / (1 << kLog2OfP);  // the factor that undoes this in the end

// Values passed between the kernels, padded to whole tiles of queries: LSE · log2 e - kLog2OfP,
// kSmallP · delta, and dQ in f32. A tile of dQ holds the accumulators of one warp after the other.
struct Workspace {
  float *lse, *delta, *dq;
  int q_tiles;             // of a head
  std::int64_t all_tiles;  // of all heads
  int splits;              // blocks that share the keys of a head
  int slices;              // copies of dQ: one, or one for each split
};

// How many splits a deterministic call makes of the keys of a head: as many as fill the 132 SMs of
// an H100 SXM or H200, at most 16, so that the workspace grows as the lengths do, and at most one
// for each tile.
template <int kHeadDim>
int most_slices(const Problem& p) {
  using C = BackwardConfig<kHeadDim>;
  constexpr int kBlocks = 132 * C::kShape.blocks, kMost = 16;
  const std::int64_t heads = std::int64_t{p.batch} * p.heads_kv;
  const int wanted = heads >= kBlocks ? 1 : std::min(kMost, kBlocks / static_cast<int>(heads));
  return std::min(wanted, num_tiles(p.seq_kv, C::kOwned));
}
template <int kHeadDim>
Workspace workspace(const BackwardParams& p) {
  using C = BackwardConfig<kHeadDim>;
  Workspace work;
  work.q_tiles = num_tiles(p.seq_q, C::kStreamed);
  work.all_tiles = std::int64_t{p.batch} * p.heads_q * work.q_tiles;
  work.splits = num_tiles(p.seq_kv, C::kOwned);
  work.slices = 1;
  if (p.deterministic != 0) work.splits = work.slices = most_slices<kHeadDim>(p);
  work.lse = static_cast<float*>(p.workspace);
  work.delta = work.lse + work.all_tiles * C::kStreamed;
  work.dq = work.delta + work.all_tiles * C::kStreamed;
  return work;
}
// Enough for either schedule: a problem does not say whether a call is deterministic.
template <int kHeadDim>
std::size_t workspace_bytes(const Problem& p) {
  using C = BackwardConfig<kHeadDim>;
  const std::size_t tiles = std::size_t{1} * p.batch * p.heads_q * num_tiles(p.seq_q, C::kStreamed);
  const std::size_t floats = 2 + std::size_t{kHeadDim} * most_slices<kHeadDim>(p);
  return tiles * C::kStreamed * floats * sizeof(float);
}

template <int kHeadDim>
constexpr int kDeltaLanes = kHeadDim == 96 ? 16 : kHeadDim / 8;

// delta = rowsum(dO ∘ O) and LSE of a row, as the workspace holds them, and zeros for its dQ.
// kDeltaLanes lanes share a row; `count` is their number for the rows of whole tiles.
template <class T, int kHeadDim>
__global__ void row_delta(const __grid_constant__ BackwardParams p,
                          const __grid_constant__ Workspace work, std::int64_t count) {
  constexpr int kLanes = kDeltaLanes<kHeadDim>, kVectors = kHeadDim / 8;
  const std::int64_t n = thread_index();
  if (n >= count) return;
  const auto [b, h, i, c] =
      unravel(n, p.heads_q, work.q_tiles * BackwardConfig<kHeadDim>::kStreamed, kLanes);
  const Sequence seq = sequence(p, b);
  // [FA2 Alg.2 l.1-2, 4]  delta = rowsum(dO ∘ O)
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
    // P = 0 where no key is seen.
    work.lse[row] = lse == -INFINITY ? INFINITY : lse * kLog2e - kLog2OfP;
    work.delta[row] = kSmallP * sum;
  }
  if (p.dq.data == nullptr || c >= kVectors) return;
  const std::int64_t slice = work.all_tiles * BackwardConfig<kHeadDim>::kStreamed * kVectors;
  float4* zeros = reinterpret_cast<float4*>(work.dq) + row * (2 * kVectors) + c;
  for (int s = 0; s < work.slices; ++s, zeros += 2 * slice) {
    zeros[0] = float4{};
    zeros[kVectors] = float4{};
  }
}

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
  write_rows<C::kStreamed, kHeadDim, C::kThreads>(
      rows<T>(p.dq, b, h), sdQ, 0, 0, tile * C::kStreamed, sequence(p, b).num_queries, thread);
}

}  // namespace cuflash::async_copy
