// 17_persistent_backward: what a block computes, and in which order.
#pragma once

#include <climits>

#include "device/hopper.h"
#include "device/tile_order.h"
#include "shape.cuh"

namespace cuflash::persistent_backward {

// The order of the pieces of work, a tile of keys each.
template <class C>
TileOrder make_order(const BackwardParams& p, std::int64_t blocks) {
  const int tiles = num_tiles(p.seq_kv, C::kOwned);
  // The width is that of the band that a mask leaves visible: UINT_MAX without a mask.
  const bool unequal = p.width != UINT_MAX, fixed_order = p.deterministic != 0;
  return {p.batch * p.heads_kv, tiles, heads_of_a_group(p, tiles, blocks, unequal, fixed_order)};
}

// What a block computes next: a tile of keys, and the tiles of queries that see some of its keys,
// in each head that shares the KV head.
struct Piece {
  int number;  // in the order; negative if there is none, and then num_steps is 0
  int batch, kv_head, j0;
  int head;       // the first query head that shares the KV head
  Range tiles;    // of queries, in each head
  int num_steps;  // tiles of queries, in all of these heads
};

using cuflash::uniform;  // The overload below would hide it.
__device__ __forceinline__ Piece uniform(const Piece& x) {
  return {uniform(x.number), uniform(x.batch), uniform(x.kv_head),  uniform(x.j0),
          uniform(x.head),   uniform(x.tiles), uniform(x.num_steps)};
}

template <int kHeadDim>
__device__ __forceinline__ Piece piece_of(const BackwardParams& p, const TileOrder& order,
                                          int number) {
  using C = BackwardConfig<kHeadDim>;
  Piece piece = {};
  piece.number = -1;
  if (number >= order.size()) return piece;
  const HeadTile at = order.at(number);
  piece.number = number;
  piece.batch = at.head / p.heads_kv, piece.kv_head = at.head % p.heads_kv;
  piece.j0 = nth_tile(p, order.tiles, at.tile) * C::kOwned;
  const int heads = p.heads_q / p.heads_kv;  // query heads that share the KV head
  piece.head = piece.kv_head * heads;
  const Range queries = visible_queries(sequence(p, piece.batch), piece.j0, piece.j0 + C::kOwned);
  const int first = queries.begin / C::kStreamed;
  const int end = queries.end > queries.begin ? (queries.end - 1) / C::kStreamed + 1 : first;
  piece.tiles = {first, end};
  piece.num_steps = (end - first) * heads;
  return piece;
}

// Steps through a piece's tiles of queries, one head after the other.
struct Step {
  Range tiles;  // of a head
  int head, tile;

  __device__ __forceinline__ explicit Step(const Piece& piece)
      : tiles(piece.tiles), head(piece.head), tile(tiles.begin) {}
  __device__ __forceinline__ void advance() {
    const bool last = tile + 1 == tiles.end;
    head += last;
    tile = last ? tiles.begin : tile + 1;
  }
};

}  // namespace cuflash::persistent_backward
