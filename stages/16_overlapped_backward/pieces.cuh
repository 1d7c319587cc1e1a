// 16_overlapped_backward: what a block computes.
#pragma once

#include "device/hopper.h"
#include "shape.cuh"

namespace cuflash::overlapped_backward {

// What a block computes: a tile of keys, and the tiles of queries that see some of its keys, in
// each head that shares the KV head.
struct Piece {
  int batch, kv_head, j0;
  int head;       // the first query head that shares the KV head
  Range tiles;    // of queries, in each head
  int num_steps;  // tiles of queries, in all of these heads
};

template <int kHeadDim>
__device__ __forceinline__ Piece piece_of(const BackwardParams& p, unsigned block) {
  using C = BackwardConfig<kHeadDim>;
  const int tiles = num_tiles(p.seq_kv, C::kOwned);
  const int heads = p.heads_q / p.heads_kv;  // query heads that share the KV head
  const Place place = uniform(unravel(block, p.heads_kv, tiles, 1));
  // place.row is the block's place among the tiles of its head.
  const int j0 = nth_tile(p, tiles, place.row) * C::kOwned;
  const Range queries = visible_queries(sequence(p, place.batch), j0, j0 + C::kOwned);
  const int first = queries.begin / C::kStreamed;
  const int end = queries.end > queries.begin ? (queries.end - 1) / C::kStreamed + 1 : first;
  return {place.batch, place.head, j0, place.head * heads, {first, end}, (end - first) * heads};
}

// Steps through a block's tiles of queries, one head after the other.
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

}  // namespace cuflash::overlapped_backward
