// The order in which the blocks of a grid that stays take tiles: by tickets (stage
// 17_persistent_backward), or in rounds (stage 14_persistent).
#ifndef CUFLASH_DEVICE_TILE_ORDER_H_
#define CUFLASH_DEVICE_TILE_ORDER_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "cuflash/problem.h"

namespace cuflash {

// A tile of a head; heads are counted over all batches.
struct HeadTile {
  int head, tile;
};

// All tiles of all heads, in the order in which blocks take them. Some neighbouring heads make a
// group, and the last group has those that are left. One group comes after the other; in a group
// the first tiles of all its heads come first, then the second ones.
struct TileOrder {
  int heads, tiles;  // of all batches; of a head
  int group_heads;   // heads of a group

  __host__ __device__ constexpr int size() const { return heads * tiles; }
  // The nth tile.
  __host__ __device__ constexpr HeadTile at(int n) const {
    const int first = group_of(n) * group_heads;
    const int width = heads - first < group_heads ? heads - first : group_heads;
    const int rest = n - first * tiles;
    return {first + rest % width, rest / width};
  }

  // The group of the nth tile, and the n of a group's first tile.
  __host__ __device__ constexpr int group_of(int n) const { return n / (tiles * group_heads); }
  __host__ __device__ constexpr int group_begin(int group) const {
    const int n = group * tiles * group_heads;
    return n < size() ? n : size();
  }
};

// True if each tile comes once, and groups end where heads do.
constexpr bool each_tile_once(const TileOrder& order) {
  bool taken[64] = {};
  for (int n = 0; n < order.size(); ++n) {
    const HeadTile at = order.at(n);
    if (at.head >= order.heads || at.tile >= order.tiles) return false;
    if (at.head / order.group_heads != order.group_of(n)) return false;
    if (n < order.group_begin(order.group_of(n))) return false;
    bool& it = taken[at.head * order.tiles + at.tile];
    if (it) return false;
    it = true;
  }
  return true;
}
static_assert(each_tile_once({5, 3, 1}) && each_tile_once({5, 3, 2}) && each_tile_once({5, 3, 5}),
              "groups of one head, of some, of all");

// Like TileOrder, but without a counter that blocks share: in round n each block takes one of the
// nth `blocks` tiles. Tile 0 of a head is its first and may have fewer rows (first_query()).
//
// If all tiles have one length (group_heads == 0), heads follow each other, and in each round a
// block takes the place after its last one. Otherwise, where the number of blocks is a multiple of
// a head's tiles, some blocks would take nothing but tiles 0.
//
// If the last tiles of a head are the longest, as under a causal mask, a group is as many heads as
// fill two rounds, but at least one; the last group also has the heads left over. It is taken from
// its longest tiles to its shortest. In even rounds block 0 has the first place, in odd ones the
// last, so that any block's tiles of two rounds take about as long together. If groups cannot fill
// two rounds exactly, every other group is taken from the shortest to the longest, so that a round
// that has tiles of two groups has tiles of similar length; the last group ends with the shortest.
struct TileRounds {
  int heads, tiles;  // of all batches; of a head
  int blocks;
  int group_heads;  // heads of a group; 0: all tiles have one length

  // The tile of queries that a block takes in a round. When it has had its last, `head` is `heads`
  // or more: there is no such head.
  __host__ __device__ constexpr HeadTile at(int block, int round) const {
    if (group_heads == 0) {
      const int n = round * blocks + (block + round) % blocks;
      return {n / tiles, n % tiles};
    }
    const int place = round % 2 == 0 ? block : blocks - 1 - block, n = round * blocks + place;
    if (n >= heads * tiles) return {heads, 0};
    const int groups = heads / group_heads, before = n / (tiles * group_heads);
    const int group = before < groups ? before : groups - 1, first = group * group_heads;
    const int width = group < groups - 1 ? group_heads : heads - first;
    const int rest = n - first * tiles;
    const bool longest_first = 2 * blocks % tiles == 0 || (groups - group) % 2 != 0;
    return {first + rest % width, longest_first ? tiles - 1 - rest / width : rest / width};
  }
};
constexpr TileRounds tile_rounds(int heads, int tiles, int blocks, bool last_are_longest) {
  const int two_rounds = 2 * blocks / tiles;
  const int group_heads = two_rounds < 1 ? 1 : two_rounds < heads ? two_rounds : heads;
  return {heads, tiles, blocks, last_are_longest ? group_heads : 0};
}

// True if the blocks compute each tile once.
constexpr bool each_tile_once(const TileRounds& order) {
  bool taken[64] = {};
  int count = 0;
  for (int block = 0; block < order.blocks; ++block) {
    for (int round = 0;; ++round, ++count) {
      const HeadTile at = order.at(block, round);
      if (at.head >= order.heads) break;
      bool& it = taken[at.head * order.tiles + at.tile];
      if (at.tile >= order.tiles || it) return false;
      it = true;
    }
  }
  return count == order.heads * order.tiles;
}
static_assert(each_tile_once(tile_rounds(7, 5, 4, false)) &&
                  each_tile_once(tile_rounds(7, 5, 4, true)) &&
                  each_tile_once(tile_rounds(7, 4, 6, true)) &&
                  each_tile_once(tile_rounds(2, 20, 8, true)) &&
                  each_tile_once(tile_rounds(1, 1, 1, true)),
              "without groups; with groups of one head and of more, and heads that are left");

// How many heads make a group of a TileOrder, whose tiles are of keys, `tiles` of a head, and taken
// by `blocks` blocks. If their lengths are unequal, as under a mask: several, so that the longest
// can come first, and at least two, so that the last ones fill the device; but so few that their
// dQ, Q and dO fit into the L2 cache. If they are equal: one; if blocks add to dQ in a fixed order,
// as many as all blocks compute at a time. Then blocks that begin together have the same tile of
// different heads, and none waits for another to add.
inline int heads_of_a_group(const Problem& p, int tiles, std::int64_t blocks, bool unequal,
                            bool fixed_order) {
  const std::int64_t heads = std::int64_t{p.batch} * p.heads_kv;
  if (!unequal) {
    if (!fixed_order) return 1;
    return static_cast<int>(std::clamp<std::int64_t>(blocks / tiles, 1, heads));
  }
  const std::int64_t cache_bytes = fixed_order ? 8 << 20 : 16 << 20;
  const std::int64_t row_bytes = p.head_dim * (sizeof(float) + 2 * 2);  // dQ, Q and dO
  const std::int64_t head_bytes = row_bytes * p.seq_q * (p.heads_q / p.heads_kv);
  return static_cast<int>(std::min(std::max(cache_bytes / head_bytes, std::int64_t{2}), heads));
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILE_ORDER_H_
