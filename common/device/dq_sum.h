// The sum of dQ in f32, to which the blocks of a backward pass add tiles: its workspace, and the
// kernels that run before and after the gradient kernel (stage 15_wgmma_backward explains them).
#ifndef CUFLASH_DEVICE_DQ_SUM_H_
#define CUFLASH_DEVICE_DQ_SUM_H_

#include <climits>
#include <cmath>

#include "device/constants.h"
#include "device/epilogue.h"
#include "device/index.h"
#include "device/mma_fragments.h"
#include "device/ptx/block_count.h"
#include "device/ptx/bulk_reduce.h"
#include "device/ptx/tensor_copy.h"
#include "device/shared_memory.h"
#include "device/swizzle.h"
#include "device/tensor.h"
#include "device/warpgroup.h"

namespace cuflash {

// P is rounded to T for the product with dO, and dS is computed from it. With many keys, weights
// are so small that many would be subnormal in f16, below 2^-14, and lose bits. So P is kept 2^10
// times as large, and kSmallP multiplies dP and delta, and in the end dV.
constexpr int kLog2OfP = 10;
constexpr float kSmallP = 1.f / (1 << kLog2OfP);

// A tile of dQ as two warpgroups hold it: they divide its rows, or, if there are only 64, its
// columns. In f32 the tile is stored accumulator by accumulator, 16 bytes per lane.
template <int kTileRows, int kHeadDim>
struct DqTile {
  static constexpr int kRows = kTileRows, kColumns = kHeadDim, kFloats = kRows * kColumns;
  static constexpr int kWarpgroups = 2, kWarps = kWarpgroups * kWarpgroupWarps;
  static constexpr bool kByRows = kRows == kWarpgroups * kWgmmaM;
  static constexpr int kWarpColumns = kByRows ? kHeadDim : kHeadDim / kWarpgroups;
  static_assert(kByRows || kRows == kWgmmaM, "a tile of dQ has 64 or 128 rows");

  using Registers = MmaAccumulator::Registers[kWarpColumns / kMmaN];

  // The first row and column of a warp's part: 16 rows, kWarpColumns columns.
  __device__ static constexpr int row(int warp) {
    return (kByRows ? warp : warp % kWarpgroupWarps) * kMmaM;
  }
  __device__ static constexpr int col(int warp) {
    return kByRows ? 0 : warp / kWarpgroupWarps * kWarpColumns;
  }
  // The index of a lane's first element of its accumulator n.
  __device__ static constexpr int index(int warp, int n, int lane) {
    return ((warp * (kWarpColumns / kMmaN) + n) * 32 + lane) * MmaAccumulator::kElements;
  }
};

// The values passed between the kernels, padded to whole tiles of queries: LSE · log2 e - kLog2OfP,
// kSmallP · delta, and dQ in f32. In a deterministic call, blocks add to a tile of dQ, or to each
// of the shares that its warpgroups hold, in a fixed order; `adds` counts the additions. `next`,
// behind these counts, counts the blocks or pieces that have begun; a stage may have more counts.
struct DqWorkspace {
  float *lse, *delta, *dq;
  unsigned *adds, *next;
  bool any_order;          // true if the additions may come in any order
  int q_tiles;             // tiles per head
  std::int64_t all_tiles;  // tiles of all heads
  std::int64_t counts;     // number of counts to set to zero: `adds`, `next`, and more
  std::int64_t zeros;      // number of floats of dQ to set to zero
};
template <class Tile, int kShares = 1>
DqWorkspace dq_workspace(const BackwardParams& p, std::int64_t more_counts = 0) {
  DqWorkspace scratch;
  scratch.q_tiles = num_tiles(p.seq_q, Tile::kRows);
  scratch.all_tiles = std::int64_t{p.batch} * p.heads_q * scratch.q_tiles;
  scratch.lse = static_cast<float*>(p.workspace);
  scratch.delta = scratch.lse + scratch.all_tiles * Tile::kRows;
  scratch.dq = scratch.delta + scratch.all_tiles * Tile::kRows;
  scratch.adds = reinterpret_cast<unsigned*>(scratch.dq + scratch.all_tiles * Tile::kFloats);
  scratch.next = scratch.adds + scratch.all_tiles * kShares;
  scratch.any_order = p.deterministic == 0;
  scratch.counts = scratch.all_tiles * kShares + 1 + more_counts;
  scratch.zeros = scratch.all_tiles * Tile::kFloats;
  return scratch;
}
template <class Tile, int kShares = 1>
std::size_t dq_workspace_bytes(const Problem& p, std::size_t more_counts = 0) {
  const std::size_t tiles = std::size_t{1} * p.batch * p.heads_q * num_tiles(p.seq_q, Tile::kRows);
  return tiles * (2 * Tile::kRows + Tile::kFloats) * sizeof(float) +
         (tiles * kShares + 1 + more_counts) * sizeof(unsigned);
}

// The order of additions in a deterministic call. Without a mask, the tiles of keys add from the
// first to the last. With a mask they add from the last to the first, so that a causal block begins
// at the diagonal, where its addition is the first. Blocks start in the same order.

// The tile of keys that the nth block of a head computes, out of `tiles`.
__device__ __forceinline__ int nth_tile(const BackwardParams& p, int tiles, int n) {
  return p.deterministic != 0 && p.width != UINT_MAX ? tiles - 1 - n : n;
}
// How many tiles of keys add to the tile of queries at i0 before the tile at j0 does. The tiles
// have `queries` queries and `keys` keys.
__device__ __forceinline__ unsigned adds_before(const Sequence& seq, int i0, int queries, int j0,
                                                int keys) {
  if (seq.band.width == UINT_MAX) return j0 / keys;
  return (visible_keys(seq, i0, i0 + queries).end - 1) / keys - j0 / keys;
}
// The number of this block in starting order, or its index if the additions may come in any order.
// One thread calls it. A block may wait for a block with a lower number, since that block has
// already started.
__device__ __forceinline__ unsigned block_number(const DqWorkspace& scratch) {
  return scratch.any_order ? blockIdx.x : atomicAdd(scratch.next, 1u);
}

// One thread adds to a share of a tile of dQ in three steps; where tiles are not divided, a share
// is a whole tile. In a fixed order, it first waits until `others` blocks have added. The count
// then stays at that value until this thread adds.
__device__ __forceinline__ void wait_to_add(const DqWorkspace& scratch, std::int64_t share,
                                            unsigned others) {
  if (scratch.any_order) return;
  ptx::block_count_wait(&scratch.adds[share], others);
  ptx::fence_proxy_async_global();  // TMA adds after the additions that the count covers.
}
// Second step: adds by TMA, and waits until TMA has read the terms.
template <int kFloats>
__device__ __forceinline__ void add_to_dq(const DqWorkspace& scratch, std::int64_t share,
                                          const float (&terms)[kFloats]) {
  ptx::bulk_reduce_add(scratch.dq + share * kFloats, terms, sizeof terms);
  ptx::tensor_store_commit();
  ptx::tensor_store_wait_read<0>();
}
// Third step: in a fixed order, lets the next block add.
__device__ __forceinline__ void let_next_add(const DqWorkspace& scratch, std::int64_t share) {
  if (scratch.any_order) return;
  ptx::tensor_store_wait<0>();  // The sums must be written before the next block may add.
  ptx::block_count_add(&scratch.adds[share]);
}

// The lanes that share a row in row_delta.
template <int kHeadDim>
constexpr int kDeltaLanes = kHeadDim == 96 ? 16 : kHeadDim / 8;

// Computes delta = rowsum(dO ∘ O) and LSE of each row, as the workspace holds them. Also sets the
// counts and the first `scratch.zeros` floats of dQ to zero. kDeltaLanes lanes share a row; `count`
// is the number of lanes for all rows of whole tiles.
template <class T, class Tile>
__global__ void row_delta(const __grid_constant__ BackwardParams p,
                          const __grid_constant__ DqWorkspace scratch, std::int64_t count) {
  constexpr int kLanes = kDeltaLanes<Tile::kColumns>, kVectors = Tile::kColumns / 8;
  const std::int64_t n = thread_index();
  if (n >= count) return;
  const auto [b, h, i, c] = unravel(n, p.heads_q, scratch.q_tiles * Tile::kRows, kLanes);
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
    if (row < scratch.counts) scratch.adds[row] = 0;
    const float lse = i < seq.num_queries ? p.lse[row_index(p, b, h, i)] : -INFINITY;
    // A row that sees no key gets P = 0.
    scratch.lse[row] = lse == -INFINITY ? INFINITY : lse * kLog2e - kLog2OfP;
    scratch.delta[row] = kSmallP * sum;
  }
  if (p.dq.data == nullptr || c >= kVectors || row * Tile::kColumns >= scratch.zeros) return;
  float4* const zeros = reinterpret_cast<float4*>(scratch.dq) + row * (2 * kVectors) + c;
  zeros[0] = float4{};
  zeros[kVectors] = float4{};
}

template <class T, class Tile>
using QueryGradientStorage = SwizzledTile<T, Tile::kRows, Tile::kColumns>;

// dQ = softmax_scale · dQ, rounded. Each block writes one tile.
template <class T, class Tile>
__global__ void __launch_bounds__(32 * Tile::kWarps)
    query_gradient(const __grid_constant__ BackwardParams p,
                   const __grid_constant__ DqWorkspace scratch) {
  auto& sdQ = shared_storage<QueryGradientStorage<T, Tile>>();
  const unsigned thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const auto [b, h, tile, unused] = unravel(blockIdx.x, p.heads_q, scratch.q_tiles, 1);

  // Read the accumulators of a warp.
  const float* const from = scratch.dq + std::int64_t{blockIdx.x} * Tile::kFloats;
  typename Tile::Registers rdQ;
#pragma unroll
  for (int n = 0; n < Tile::kWarpColumns / kMmaN; ++n) {
    const float4 x = *reinterpret_cast<const float4*>(from + Tile::index(warp, n, lane));
    rdQ[n][0] = x.x, rdQ[n][1] = x.y, rdQ[n][2] = x.z, rdQ[n][3] = x.w;
  }
  // Write the tile row by row.
  store_rounded<T>(sdQ, Tile::row(warp), Tile::col(warp), rdQ, p.softmax_scale, lane);
  __syncthreads();  // The tile must be written before threads read its rows.
  write_rows<Tile::kRows, Tile::kColumns, 32 * Tile::kWarps>(
      rows<T>(p.dq, b, h), sdQ, 0, 0, tile * Tile::kRows, sequence(p, b).num_queries, thread);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_DQ_SUM_H_
