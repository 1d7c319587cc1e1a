// 16_overlapped_backward: the shape of the work, and the kernels before and after kernel_bwd.cuh's.
// dQ passes through the workspace in f32, in the order in which warps hold it.
#pragma once

#include <cmath>

#include "device/constants.h"
#include "device/index.h"
#include "device/mma_fragments.h"
#include "device/registers.h"
#include "device/shared_memory.h"
#include "device/swizzle.h"
#include "device/tensor.h"
#include "device/warpgroup.h"

namespace cuflash::overlapped_backward {

// The shape of a block's work. There is one block on an SM.
struct Shape {
  int keys;     // of a block
  int queries;  // of a tile
  int stages;   // tiles of Q and dO
};
constexpr Shape shape(int head_dim) {
  switch (head_dim) {
    case 32:
      return {128, 128, 2};  // 146 KB
    case 64:
      return {128, 128, 2};  // 227 KB
    default:
      return {128, 64, 2};  // 225 KB; dK and dV take 128 of a consumer's 240 registers
  }
}

template <int kHeadDim>
struct BackwardConfig {
  static constexpr Shape kShape = shape(kHeadDim);
  static constexpr int kOwned = kShape.keys, kStreamed = kShape.queries, kStages = kShape.stages;
  static constexpr int kConsumers = 2, kWarpgroups = 1 + kConsumers;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kWarps = kConsumers * kWarpgroupWarps;  // of the consumers
  // Of dQ they divide the queries, and if there are only 64, the columns.
  static constexpr bool kDqByRows = kStreamed == kConsumers * kWgmmaM;
  static constexpr int kDqCols = kDqByRows ? kHeadDim : kHeadDim / kConsumers;
  static constexpr int kDqTile = kStreamed * kHeadDim;  // floats
  // Registers of a thread: at launch, and when the producer has given its own away.
  static constexpr int kRegisters = 65536 / kThreads / 8 * 8;
  static constexpr int kProducerRegisters = 24;
  static constexpr int kConsumerRegisters =
      (kWarpgroups * kRegisters - kProducerRegisters) / kConsumers / 8 * 8;

  using Scores = MmaAccumulator::Registers[kStreamed / kMmaN];
  using Gradient = MmaAccumulator::Registers[kHeadDim / kMmaN];
  using QueryGradient = MmaAccumulator::Registers[kDqCols / kMmaN];

  // The part of a tile of dQ that a warp of the consumers holds: 16 rows, kDqCols columns.
  __device__ static constexpr int dq_row(int warp) {
    return (kDqByRows ? warp : warp % kWarpgroupWarps) * kMmaM;
  }
  __device__ static constexpr int dq_col(int warp) {
    return kDqByRows ? 0 : warp / kWarpgroupWarps * kDqCols;
  }
  // Where such a warp's accumulator n lies in a tile of dQ in f32: 16 bytes a lane.
  __device__ static constexpr int dq_index(int warp, int n, int lane) {
    return ((warp * (kDqCols / kMmaN) + n) * 32 + lane) * MmaAccumulator::kElements;
  }
};

// P is rounded to T for the product with dO, and dS computed from it. Among many keys each has so
// small a weight that few bits of it would be left in f16, whose numbers below 2^-14 have fewer. So
// P is kept 2^10 times as large.
constexpr int kLog2OfP = 10;
constexpr float kSmallP = 1.f / (1 << kLog2OfP);  // what P is multiplied by in the end

// What the kernels hand on, for the rows of whole tiles of queries: LSE · log2 e - kLog2OfP,
// kSmallP · delta, and dQ in f32.
struct Workspace {
  float *lse, *delta, *dq;
  int q_tiles;             // of a head
  std::int64_t all_tiles;  // of all heads
};
template <int kHeadDim>
Workspace workspace(const BackwardParams& p) {
  using C = BackwardConfig<kHeadDim>;
  Workspace work;
  work.q_tiles = num_tiles(p.seq_q, C::kStreamed);
  work.all_tiles = std::int64_t{p.batch} * p.heads_q * work.q_tiles;
  work.lse = static_cast<float*>(p.workspace);
  work.delta = work.lse + work.all_tiles * C::kStreamed;
  work.dq = work.delta + work.all_tiles * C::kStreamed;
  return work;
}
template <int kHeadDim>
std::size_t workspace_bytes(const Problem& p) {
  using C = BackwardConfig<kHeadDim>;
  const std::size_t tiles = std::size_t{1} * p.batch * p.heads_q * num_tiles(p.seq_q, C::kStreamed);
  return tiles * C::kStreamed * (2 + kHeadDim) * sizeof(float);
}

// Rounds a warp's accumulators, scaled, to a tile, from (row, col) on.
template <class T, class Tile, int kFragments>
__device__ __forceinline__ void store_rounded(Tile& tile, int row, int col,
                                              const float (&r)[kFragments][4], float scale,
                                              int lane) {
#pragma unroll
  for (int n = 0; n < kFragments; ++n) {
#pragma unroll
    for (int e = 0; e < MmaAccumulator::kElements; e += 2) {
      auto& to =
          tile(row + MmaAccumulator::row(lane, e), col + n * kMmaN + MmaAccumulator::col(lane, e));
      *reinterpret_cast<std::uint32_t*>(&to) = pack<T>(r[n][e] * scale, r[n][e + 1] * scale);
    }
  }
}

// Writes kCount rows from r0 and kCols columns from `col` of a tile, whose row 0 is row `first` of
// the head, a thread a chunk of each panel.
template <int kCount, int kCols, int kThreads, class T, class Tile>
__device__ __forceinline__ void write_rows(Rows<T> g, Tile& tile, int r0, int col, int first,
                                           int num_rows, unsigned thread) {
  constexpr int kStep = kThreads / Tile::kChunks;  // rows that the threads write at a time
  const int d = col + thread % Tile::kChunks * Tile::kChunk;
#pragma unroll
  for (int n = 0; n < kCount; n += kStep) {
    const int r = r0 + n + thread / Tile::kChunks;
    if (first + r >= num_rows) continue;
#pragma unroll
    for (int c = 0; c < kCols; c += Tile::kPanelCols) {
      *reinterpret_cast<uint4*>(&g(first + r, d + c)) =
          *reinterpret_cast<const uint4*>(&tile(r, d + c));
    }
  }
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
  float4* const zeros = reinterpret_cast<float4*>(work.dq) + row * (2 * kVectors) + c;
  zeros[0] = float4{};
  zeros[kVectors] = float4{};
}

template <class T, int kHeadDim>
using QueryGradientStorage = SwizzledTile<T, BackwardConfig<kHeadDim>::kStreamed, kHeadDim>;
template <int kHeadDim>
constexpr int kQueryGradientThreads = 32 * BackwardConfig<kHeadDim>::kWarps;

// dQ = softmax_scale · dQ, rounded. A block writes a tile.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(kQueryGradientThreads<kHeadDim>)
    query_gradient(const __grid_constant__ BackwardParams p,
                   const __grid_constant__ Workspace work) {
  using C = BackwardConfig<kHeadDim>;
  auto& sdQ = shared_storage<QueryGradientStorage<T, kHeadDim>>();
  const unsigned thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, tile, unused] = unravel(blockIdx.x, p.heads_q, work.q_tiles, 1);

  // Read what a warp of the consumers held.
  const float* const from = work.dq + std::int64_t{blockIdx.x} * C::kDqTile;
  typename C::QueryGradient rdQ;
#pragma unroll
  for (int n = 0; n < C::kDqCols / kMmaN; ++n) {
    const float4 x = *reinterpret_cast<const float4*>(from + C::dq_index(warp, n, lane));
    rdQ[n][0] = x.x, rdQ[n][1] = x.y, rdQ[n][2] = x.z, rdQ[n][3] = x.w;
  }
  // Write the tile by rows.
  store_rounded<T>(sdQ, C::dq_row(warp), C::dq_col(warp), rdQ, p.softmax_scale, lane);
  __syncthreads();  // The tile is written before threads read rows of it.
  write_rows<C::kStreamed, kHeadDim, kQueryGradientThreads<kHeadDim>>(
      rows<T>(p.dq, b, h), sdQ, 0, 0, tile * C::kStreamed, sequence(p, b).num_queries, thread);
}

}  // namespace cuflash::overlapped_backward
