// What a block does between two stores of O, and in which order.
#pragma once

#include <climits>

#include "device/index.h"
#include "device/mask.h"
#include "device/tensor.h"
#include "device/warpgroup.h"

namespace cuflash::persistent {

// Tiles of keys.
struct KeyTiles {
  Range visible;  // to some of the queries
  Range no_mask;  // to all of them
};

// The work of a block between two stores of O.
template <class C>
struct Work {
  int batch;                         // negative if there is no more work
  int head, i0;                      // the first query, negative if the first rows do not exist
  Range tiles;                       // of keys, that some of the queries see,
  KeyTiles consumer[C::kConsumers];  // and for each consumer's queries
};

// The tiles of keys for the queries [first_row, end). Those that do not exist see none.
template <class C>
__device__ __forceinline__ KeyTiles key_tiles(const Sequence& seq, int first_row, int end) {
  const int begin = max(first_row, 0);
  const Range keys = visible_keys(seq, begin, end), full = keys_visible_to_all(seq, begin, end);
  const int first = keys.begin / C::kBlockKV;
  const bool any = begin < min(end, seq.num_queries) && keys.begin < keys.end;
  return {{first, any ? (keys.end - 1) / C::kBlockKV + 1 : first},
          {(full.begin + C::kBlockKV - 1) / C::kBlockKV, full.end / C::kBlockKV}};
}

// A tile of queries, and its head, counted over all batches.
struct QueryTile {
  unsigned head, tile;
};

// Which tiles of queries a block computes. Without a mask the blocks take them by turns, and each
// round begins a block later: the first tile of a head may have fewer rows, and the number of
// blocks may be a multiple of a head's tiles. Under a mask the last tiles of a head are longer than
// the first. There most are taken in pairs of a long and a short one, from two heads at a time, so
// that all pairs are equal. In the last round of pairs some blocks get none: each of these takes
// the longest tile that is left. The rest is dealt out, longest first, backwards and forwards by
// turns.
struct Order {
  unsigned heads, tiles;  // of a head
  unsigned blocks;
  bool unequal;
  unsigned paired = 0;           // heads
  unsigned pairs = 0, more = 0;  // of each block; so many blocks have one more
  unsigned late = 0;             // blocks that have none more, if some have

  __host__ __device__ constexpr Order(unsigned num_heads, unsigned tiles_of_head,
                                      unsigned num_blocks, bool some_are_longer)
      : heads(num_heads), tiles(tiles_of_head), blocks(num_blocks), unequal(some_are_longer) {
    if (!unequal) return;
    // If all could be paired and only a few blocks would get none in the last round, all are.
    // Otherwise two tiles are left for each block.
    const unsigned all = heads / 2 * tiles, none = (blocks - all % blocks) % blocks;
    const unsigned left = 25 * none <= all ? 0 : (2 * blocks + tiles - 1) / tiles;
    if (left < heads) paired = (heads - left) / 2 * 2;
    pairs = paired / 2 * tiles / blocks, more = paired / 2 * tiles % blocks;
    if (more > 0) late = blocks - more;
  }

  // The nth tile of a block. After the last one, a head that does not exist.
  __host__ __device__ constexpr QueryTile at(unsigned block, unsigned n) const {
    const unsigned first = 2 * (pairs + (block < more ? 1 : 0));  // that is not of a pair
    if (n < first) {
      // Full rounds begin a block later each, since not all pairs are quite equal.
      const unsigned round = n / 2, turn = round < pairs ? (block + round) % blocks : block;
      const unsigned pair = round * blocks + turn, two_heads = pair / tiles * 2;
      const unsigned nth = pair % tiles, from = nth / 2;  // the end of its head
      if (n % 2 == 0) return {two_heads + nth % 2, tiles - 1 - from};
      return {two_heads + 1 - nth % 2, from};
    }
    const bool is_late = late > 0 && block >= more;
    if (is_late && n == first) return longest(block - more);
    const unsigned round = n - first - (is_late ? 1 : 0);
    if (!unequal) return longest(round * blocks + (block + round) % blocks);
    const unsigned place = round % 2 == 0 ? blocks - 1 - block : block;
    return longest(late + round * blocks + place);
  }

 private:
  // The nth longest of those that are left. Without a mask, the nth.
  __host__ __device__ constexpr QueryTile longest(unsigned n) const {
    const unsigned left = heads - paired;
    if (n >= left * tiles) return {heads, 0};
    if (!unequal) return {n / tiles, n % tiles};
    return {paired + n % left, tiles - 1 - n / left};
  }
};

// True if the blocks compute each tile once.
constexpr bool each_tile_once(const Order& order) {
  bool taken[128] = {};
  unsigned count = 0;
  for (unsigned block = 0; block < order.blocks; ++block) {
    for (unsigned n = 0;; ++n, ++count) {
      const QueryTile at = order.at(block, n);
      if (at.head >= order.heads) break;
      if (at.tile >= order.tiles || taken[at.head * order.tiles + at.tile]) return false;
      taken[at.head * order.tiles + at.tile] = true;
    }
  }
  return count == order.heads * order.tiles;
}
static_assert(each_tile_once({7, 5, 4, false}) && each_tile_once({7, 5, 4, true}) &&
                  each_tile_once({12, 3, 5, true}) && each_tile_once({2, 9, 8, true}) &&
                  each_tile_once({20, 6, 10, true}) && each_tile_once({1, 1, 1, true}),
              "with and without pairs, with blocks that get none in the last round");

// True if no block has two more of the heads' first tiles than another, without a mask.
constexpr bool first_tiles_are_even(unsigned heads, unsigned tiles) {
  const Order order(heads, tiles, 132, false);
  unsigned least = UINT_MAX, most = 0;
  for (unsigned block = 0; block < order.blocks; ++block) {
    unsigned mine = 0;
    for (unsigned n = 0; order.at(block, n).head < heads; ++n) {
      if (order.at(block, n).tile == 0) ++mine;
    }
    least = mine < least ? mine : least;
    most = most < mine ? mine : most;
  }
  return most <= least + 1;
}
static_assert(first_tiles_are_even(512, 3) && first_tiles_are_even(256, 6) &&
                  first_tiles_are_even(128, 11) && first_tiles_are_even(64, 22),
              "512 to 4,096 of 16,384 tokens with 16 heads on an H200");

// True if no block has more than 105 % of the mean, in tiles of keys, under a causal mask. Each
// tile of queries loses the time of one more at its ends.
constexpr bool is_even(unsigned heads, unsigned queries, unsigned rows, unsigned keys) {
  const Order order(heads, (queries + rows - 1) / rows, 132, true);
  unsigned long long most = 0, all = 0;
  for (unsigned block = 0; block < order.blocks; ++block) {
    unsigned long long mine = 0;
    for (unsigned n = 0;; ++n) {
      const QueryTile at = order.at(block, n);
      if (at.head >= heads) break;
      const unsigned end = first_query(queries, rows, order.tiles, at.tile) + rows;
      mine += 1 + ((end < queries ? end : queries) + keys - 1) / keys;
    }
    all += mine;
    if (most < mine) most = mine;
  }
  return 100 * order.blocks * most <= 105 * all;
}
static_assert(is_even(512, 512, 192, 64) && is_even(256, 1024, 192, 64) &&
                  is_even(128, 2048, 192, 64) && is_even(64, 4096, 192, 64) &&
                  is_even(32, 8192, 192, 64) && is_even(16, 16384, 192, 64),
              "16,384 tokens with 16 heads of 128 columns on an H200");

// Writes down the nth tile of queries of this block. False if there is none.
template <class C>
__device__ __forceinline__ bool find_work(Work<C>& work, const ForwardParams& p, const Order& order,
                                          unsigned n) {
  const QueryTile at = order.at(blockIdx.x, n);
  if (at.head >= order.heads) {
    work.batch = -1;
    return false;
  }
  const int b = at.head / p.heads_q;
  const Sequence seq = sequence(p, b);
  const int i0 = first_query(seq.num_queries, C::kBlockQ, order.tiles, at.tile);
  work.batch = b, work.head = at.head % p.heads_q, work.i0 = i0;
  work.tiles = key_tiles<C>(seq, i0, i0 + C::kBlockQ).visible;
#pragma unroll 1
  for (int c = 0; c < C::kConsumers; ++c) {
    work.consumer[c] = key_tiles<C>(seq, i0 + c * kWgmmaM, i0 + (c + 1) * kWgmmaM);
  }
  return true;
}

}  // namespace cuflash::persistent
