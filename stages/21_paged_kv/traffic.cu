// What 21_paged_kv asks for, without lengths on the device.
#include <vector>

#include "harness/tile_of.h"
#include "kernel.cuh"

namespace cuflash::paged_kv {
namespace {

using namespace harness;

// The tiles that hold keys.
template <class C>
Range tiles_of(Span keys) {
  if (keys.size() == 0) return {0, 0};
  return {static_cast<int>(keys.begin) / C::kBlockKV,
          num_tiles(static_cast<int>(keys.end), C::kBlockKV)};
}

// The tiles of keys of each piece of a tile of rows.
template <class C>
std::vector<Range> pieces_of(const Problem& p, const Division& division, std::int64_t row_tile) {
  const Range tiles = tiles_of<C>(keys_of(p, 0, p.seq_q));
  std::vector<Range> pieces;
  if (division.parts != 0) {
    const Range parts = parts_of(division, tiles);
    for (int n = parts.begin; n < parts.end; ++n) {
      pieces.push_back(tiles_of_part(division, tiles, n));
    }
    return pieces;
  }
  const std::int64_t each = std::max(tiles.end - tiles.begin, 1);
  const std::int64_t work = all_row_tiles(p) * each, begin = row_tile * each, end = begin + each;
  for (std::int64_t at = begin; at < end;) {
    const int block = block_of(division, work, at);
    const std::int64_t next = std::min(end, span_begin(division, work, block + 1));
    pieces.push_back({tiles.begin + static_cast<int>(at - begin),
                      std::min(tiles.begin + static_cast<int>(next - begin), tiles.end)});
    at = next;
  }
  return pieces;
}

// The bytes of block_table that a piece reads: of each key of its tiles and of the tile behind
// them, if its rows see the key, once for each thread that copies a part of the key's row.
template <class C, int kHeadDim>
std::uint64_t table_bytes(const Problem& p, Range tiles, Span keys) {
  if (p.page_size == 0) return 0;
  std::uint64_t looked_up = 0;
  for (int tile = tiles.begin; tile <= std::max(tiles.begin, tiles.end); ++tile) {
    const std::int64_t first = std::int64_t{tile} * C::kBlockKV;
    looked_up += static_cast<std::uint64_t>(
        Span{std::max(first, keys.begin), std::min(first + C::kBlockKV, keys.end)}.size());
  }
  return looked_up * Swizzle<C::kBlockKV, kHeadDim>::kChunks * sizeof(int);
}

// Q once for each warp of each piece, the keys that a tile of rows sees and their values once; O
// and LSE. Where a tile of rows has several pieces, their results and the numbers of each row.
template <int kHeadDim>
Traffic forward_of(const Problem& p, const Device& device) {
  using C = Config<kHeadDim>;
  const Sizes n(p);
  const Division division = make_division<C>(p, device.sms);
  const int group = group_size(p), rows = group * p.seq_q;
  Traffic t;
  for (std::int64_t row_tile = 0; row_tile < all_row_tiles(p); ++row_tile) {
    const int first = static_cast<int>(row_tile % num_row_tiles(p)) * kMmaM;
    const int end = std::min(first + kMmaM, rows);
    Span keys = keys_of(p, first / group, (end - 1) / group + 1);
    if (keys.size() == 0) keys = {};
    const Range seen = tiles_of<C>(keys);
    t.read_bytes += 2 * static_cast<std::uint64_t>(keys.size()) * n.row_bytes;
    const std::vector<Range> pieces = pieces_of<C>(p, division, row_tile);
    t.read_bytes += pieces.size() * C::kWarps * (end - first) * n.row_bytes;
    for (const Range& piece : pieces) {
      t.read_bytes += table_bytes<C, kHeadDim>(
          p, {std::max(piece.begin, seen.begin), std::min(piece.end, seen.end)}, keys);
    }
    if (pieces.size() == 1) continue;
    for (int row = first; row < end; ++row) {
      const Span own = keys_of(p, row / group, row / group + 1);
      for (const Range& piece : pieces) {
        t.write_bytes += kHeadDim * kFloat + sizeof(float2);
        t.read_bytes += kFloat + 32 * sizeof(float2);  // one lane, then all
        const Span both = {std::max<std::int64_t>(own.begin, piece.begin * C::kBlockKV),
                           std::min<std::int64_t>(own.end, piece.end * C::kBlockKV)};
        if (both.size() > 0) t.read_bytes += kHeadDim * kFloat;
      }
    }
  }
  t.write_bytes += n.rows * (n.row_bytes + kFloat);
  return t;
}

Traffic resident(const Problem& p, const Device& device) {
  return dispatch(TensorCoreTypes{}, EveryHeadDim{}, p, Traffic{},
                  [&](auto, auto head_dim) { return forward_of<head_dim()>(p, device); });
}

// All of it depends on the number of blocks.
Traffic forward(const Problem&) { return {}; }

constexpr auto forward_tile = forward_tile_of<Config, EveryHeadDim>;

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile, resident}, {}};

}  // namespace cuflash::paged_kv
