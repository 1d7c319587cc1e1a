// The order in which the blocks of a grid that stays take tiles (stages 14_persistent and
// 17_persistent_backward).
#ifndef CUFLASH_DEVICE_TILE_ORDER_H_
#define CUFLASH_DEVICE_TILE_ORDER_H_

#include <algorithm>
#include <cstdint>

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

// How many heads make a group if a mask makes some tiles longer than others: several, so that the
// longest can come first, and at least two, so that the last ones fill the device; but so few that
// what they read and write, of `head_bytes` each, fits into `cache_bytes` of the L2 cache.
inline int heads_that_fit(std::int64_t cache_bytes, std::int64_t head_bytes, std::int64_t heads) {
  return static_cast<int>(std::min(std::max(cache_bytes / head_bytes, std::int64_t{2}), heads));
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILE_ORDER_H_
