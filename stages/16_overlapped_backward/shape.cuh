// 16_overlapped_backward: the shape of a block's work, and which block computes what.
#pragma once

#include <algorithm>
#include <climits>

#include "device/dq_workspace.h"
#include "device/mma_fragments.h"
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
  using Dq = DqTile<kStreamed, kHeadDim>;
  // Registers of a thread: at launch, and when the producer has given its own away.
  static constexpr int kRegisters = 65536 / kThreads / 8 * 8;
  static constexpr int kProducerRegisters = 24;
  static constexpr int kConsumerRegisters =
      (kWarpgroups * kRegisters - kProducerRegisters) / kConsumers / 8 * 8;

  using Scores = MmaAccumulator::Registers[kStreamed / kMmaN];
  using Gradient = MmaAccumulator::Registers[kHeadDim / kMmaN];
};

// How many KV heads' tiles of keys are computed side by side. If the mask lets tiles see different
// numbers of queries, several heads share a queue, so that the longest tiles can come first, and at
// least two, so that the last ones fill the device; but only as many as the L2 cache can hold what
// they add to.
inline int heads_together(const BackwardParams& p) {
  constexpr std::int64_t kCacheBytes = 32 << 20;
  if (p.width == UINT_MAX) return 1;
  const std::int64_t row_bytes = p.head_dim * (sizeof(float) + 2 * 2);  // dQ, Q and dO
  const std::int64_t head_bytes = row_bytes * p.seq_q * (p.heads_q / p.heads_kv);
  const std::int64_t heads = std::int64_t{p.batch} * p.heads_kv;
  return static_cast<int>(std::min(std::max(kCacheBytes / head_bytes, std::int64_t{2}), heads));
}

// The KV head, counted over all batches, and the tile of keys that the nth block computes. A queue
// has `together` heads, and the last one those that are left. Of a queue the first tiles of all
// heads come first: under a causal mask they are the longest.
struct KeyTile {
  int head, tile;
};
__host__ __device__ constexpr KeyTile key_tile(int heads, int tiles, int together, int n) {
  const int first = n / (tiles * together) * together;
  const int width = heads - first < together ? heads - first : together;
  const int rest = n - first * tiles;
  return {first + rest % width, rest / width};
}

// True if each tile has one block.
constexpr bool each_tile_once(int heads, int tiles, int together) {
  bool taken[64] = {};
  for (int n = 0; n < heads * tiles; ++n) {
    const KeyTile at = key_tile(heads, tiles, together, n);
    if (at.head >= heads || at.tile >= tiles || taken[at.head * tiles + at.tile]) return false;
    taken[at.head * tiles + at.tile] = true;
  }
  return true;
}
static_assert(each_tile_once(5, 3, 1) && each_tile_once(5, 3, 2) && each_tile_once(5, 3, 5),
              "queues of one head, of some, of all");

}  // namespace cuflash::overlapped_backward
