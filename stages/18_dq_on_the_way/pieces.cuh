// 18_dq_on_the_way: what a block computes, in which order, and what else it does meanwhile.
#pragma once

#include <algorithm>
#include <climits>

#include "device/hopper.h"
#include "device/tile_order.h"
#include "shape.cuh"

namespace cuflash::dq_on_the_way {

// The pieces of work, in the order in which blocks take them. Each is a tile of a KV head's keys.
//
// The dQ of a group of heads is cut into slices. A slice is what one warp holds of a tile of dQ. To
// spread the work of zeroing and rounding, each piece of the group is given equally many slices,
// but may add to others. While a block computes a piece, it writes the zeros of the piece `lead`
// places later, and rounds the slices of the piece `lag` places before. The previous kernel zeroes
// the slices of the first `lead` pieces, and the next kernel rounds the slices of the last `lag`
// pieces.
struct Schedule {
  TileOrder order;
  int lead, lag;
  std::int64_t slices;  // of dQ for each KV head: of all query heads that share it

  // How many pieces a group has, and for how many of them blocks write the zeros.
  __host__ __device__ constexpr int pieces(int group) const {
    return order.group_begin(group + 1) - order.group_begin(group);
  }
  __host__ __device__ constexpr int zeroed_pieces(int group) const {
    const int begin = order.group_begin(group), end = order.group_begin(group + 1);
    return lead <= begin ? end - begin : lead < end ? end - lead : 0;
  }

  // The first of a piece's slices: order.tiles pieces have as many slices as a head. An int holds
  // it: 2^31 slices would fill terabytes.
  __host__ __device__ constexpr int first_slice(int number) const {
    return static_cast<int>(number * slices / order.tiles);
  }
};

// True if the slices of a group's pieces are those of its heads.
constexpr bool slices_are_of_the_group(const Schedule& schedule) {
  const TileOrder& order = schedule.order;
  for (int head = 0; head < order.heads; head += order.group_heads) {
    const int begin = order.group_begin(head / order.group_heads);
    if (schedule.first_slice(begin) != head * schedule.slices) return false;
  }
  return schedule.first_slice(order.size()) == order.heads * schedule.slices;
}
static_assert(slices_are_of_the_group({{5, 3, 1}, 0, 0, 7}) &&
                  slices_are_of_the_group({{5, 3, 2}, 0, 0, 7}),
              "groups of one head, of some");

// The keepers: the producer's warps that look after the sums of dQ. They write zeros before the
// first addition and round after the last. Of the other warps, one requests tiles and one adds.
constexpr int kKeepers = 2;

// True if keepers round slices while their block computes a piece. Their reads slow the additions
// to dQ down, so it pays only where they have time to spare. On an H200 they need as long as the
// consumers take for about 512 queries of a KV head; the limit is 1.5 times that.
inline bool rounds_on_the_way(const BackwardParams& p, int keys) {
  constexpr int kLeastQueries = 768;
  // The number of queries of a head that see a piece; with a mask, the mean of a causal one.
  const int queries = p.width == UINT_MAX ? p.seq_q : (p.seq_q + keys) / 2;
  return queries >= kLeastQueries;
}

// Lead and lag are at least the pieces of one group. So whatever a piece waits for belongs to
// pieces with lower numbers: the zeros of its group were written along with pieces before that
// group, and the sums that it rounds are of a group that ended before it. A lower number was taken
// earlier, by a block that is running, so no wait lasts forever. A block has at most three pieces
// in flight, two in its slots and one that its producer has taken. Lead and lag include these, too,
// so that normally no warp waits at all.
template <class C>
Schedule make_schedule(const BackwardParams& p, std::int64_t blocks) {
  const int tiles = num_tiles(p.seq_kv, C::kOwned);
  Schedule schedule;
  // The width is that of the band that a mask leaves visible: UINT_MAX without a mask.
  const bool unequal = p.width != UINT_MAX, fixed_order = false;
  const int group_heads = heads_of_a_group(p, tiles, blocks, unequal, fixed_order);
  schedule.order = {p.batch * p.heads_kv, tiles, group_heads};
  schedule.slices =
      std::int64_t{num_tiles(p.seq_q, C::kStreamed)} * (p.heads_q / p.heads_kv) * C::Dq::kWarps;
  const int pieces = schedule.order.size();
  const std::int64_t group_pieces = std::int64_t{tiles} * group_heads;
  schedule.lead = static_cast<int>(std::min<std::int64_t>(pieces, group_pieces + 3 * blocks));
  // With a lag of all pieces, blocks round none.
  schedule.lag = rounds_on_the_way(p, C::kOwned) ? schedule.lead : pieces;
  return schedule;
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
  piece.j0 = at.tile * C::kOwned;
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

}  // namespace cuflash::dq_on_the_way
