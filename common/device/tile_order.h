// The order in which the blocks of a persistent grid take tiles: by a counter (stage
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

// All tiles of all heads, in the order in which blocks take them. Neighbouring heads form groups;
// the last group may be smaller. Groups follow each other. Within a group, the first tiles of all
// its heads come first, then the second tiles, and so on.
struct TileOrder {
  int heads, tiles;  // heads of all batches; tiles per head
  int group_heads;   // heads per group

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

// True if each tile comes exactly once, and groups consist of whole heads.
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
              "groups of one head, of some heads, of all heads");

// An order without a shared counter, which each call would have to reset: in each round every block
// takes one tile. Tile 0, the first of a head, may have fewer rows (first_query()).
//
// If all tiles have the same length, heads follow each other, and a block moves on by one place in
// each round. If it kept its place, and the number of blocks were a multiple of the tiles per head,
// some blocks would take only tiles 0.
//
// If the last tiles of a head are the longest, as under a causal mask, a long tile of one head and
// a short one of its neighbour form a pair. All pairs take equally long. In a sweep each block
// takes a pair, in two rounds. Neighbouring blocks have pairs of the same two heads, so they read
// the same K and V at about the same time. The last heads remain unpaired. When no pair is left,
// each block takes one of their tiles per sweep, the longest first. Every other of these sweeps
// goes through the blocks in reverse, to balance the end.
struct TileRounds {
  int heads, tiles;  // heads of all batches; tiles per head
  int blocks;
  int pairs;  // number of pairs; negative if all tiles have the same length

  // The tile of queries that a block takes in a round. After its last one, `head` is at least
  // `heads`.
  __host__ __device__ constexpr HeadTile at(int block, int round) const {
    if (pairs < 0) {
      const int n = round * blocks + (block + round) % blocks;
      return {n / tiles, n % tiles};
    }
    // In the last sweep with pairs, blocks without a pair begin with unpaired tiles.
    const int full_sweeps = pairs / blocks;
    const int own_pairs = full_sweeps + (block < pairs % blocks ? 1 : 0);
    if (round < 2 * own_pairs) {
      const int n = round / 2 * blocks + block, nth = n % tiles;
      return {n / tiles * 2 + (nth + round) % 2, round % 2 == 0 ? tiles - 1 - nth / 2 : nth / 2};
    }
    const int sweep = round - own_pairs;  // a sweep with a pair takes two rounds
    const int place = (sweep - full_sweeps) % 2 == 0 ? block : blocks - 1 - block;
    const int paired = pairs / tiles * 2, single = heads - paired;  // heads
    const int n = sweep * blocks + place - pairs;                   // the nth unpaired tile
    if (n >= single * tiles) return {heads, 0};
    return {paired + n % single, tiles - 1 - n / single};
  }
};
constexpr TileRounds tile_rounds(int heads, int tiles, int blocks, bool last_are_longest) {
  const int single = (2 * blocks + tiles - 1) / tiles;  // at least two unpaired tiles per block
  const int pairs = heads > single ? (heads - single) / 2 * tiles : 0;
  return {heads, tiles, blocks, last_are_longest ? pairs : -1};
}

// True if the blocks compute each tile exactly once.
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
                  each_tile_once(tile_rounds(5, 4, 6, true)) &&
                  each_tile_once(tile_rounds(2, 3, 8, true)) &&
                  each_tile_once(tile_rounds(5, 3, 1, true)),
              "no mask; pairs and an odd head; fewer pairs than blocks; fewer tiles; one block");

// The number of heads per group of a TileOrder, for `blocks` blocks and heads of `tiles` tiles of
// keys. If the tiles have unequal lengths, as under a mask: at least two, so that the longest tiles
// come first (in a fixed order, those that add first) and one head's last tiles do not finish
// alone; but few enough that their dQ, Q and dO fit into the L2 cache. If the lengths are equal,
// the number is one or, if blocks add to dQ in a fixed order, as many as all blocks compute at a
// time. After a first round of waiting, blocks that start together then have the same tile of
// different heads.
inline int heads_of_a_group(const Problem& p, int tiles, std::int64_t blocks, bool unequal,
                            bool fixed_order) {
  const std::int64_t heads = std::int64_t{p.batch} * p.heads_kv;
  if (!unequal) {
    if (!fixed_order) return 1;
    return static_cast<int>(std::clamp<std::int64_t>(blocks / tiles, 1, heads));
  }
  const std::int64_t cache_bytes = fixed_order ? 8 << 20 : 16 << 20;    // fastest of those tried
  const std::int64_t row_bytes = p.head_dim * (sizeof(float) + 2 * 2);  // dQ, Q and dO
  const std::int64_t head_bytes = row_bytes * p.seq_q * (p.heads_q / p.heads_kv);
  return static_cast<int>(std::min(std::max(cache_bytes / head_bytes, std::int64_t{2}), heads));
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILE_ORDER_H_
