// The tiles that a block iterates over: those in which some query may see some key. Seq is
// Sequence, or the Sequence of a stage with its own mask (mask.h).
#ifndef CUFLASH_DEVICE_TILES_H_
#define CUFLASH_DEVICE_TILES_H_

#include "device/mask.h"
#include "device/tile_mark.h"

namespace cuflash {

// For a range-based for loop: the first row of each tile of kRows rows that covers a range.
template <int kRows>
class Tiles {
 public:
  struct Iterator {
    const char* name;
    int first;

    __device__ __forceinline__ int operator*() const {
      mark_tile(name, first / kRows);
      return first;
    }
    __device__ __forceinline__ Iterator& operator++() {
      first += kRows;
      return *this;
    }
    // The range need not end at a tile boundary.
    __device__ __forceinline__ bool operator!=(const Iterator& end) const {
      const bool more = first < end.first;
      if (!more) mark_tile(nullptr, 0);
      return more;
    }
  };

  __device__ __forceinline__ Tiles(const char* name, Range range) : name_(name), range_(range) {}
  __device__ __forceinline__ Iterator begin() const {
    return {name_, range_.begin / kRows * kRows};
  }
  __device__ __forceinline__ Iterator end() const { return {name_, range_.end}; }

 private:
  const char* name_;
  Range range_;
};

// The first key of each tile of kBlockKV keys that may hold a key visible to one of the queries
// [i0, i0 + num_queries).
template <int kBlockKV, class Seq>
__device__ __forceinline__ Tiles<kBlockKV> kv_tiles(const Seq& seq, int i0, int num_queries) {
  return {"KV tile", visible_keys(seq, i0, i0 + num_queries)};
}

// The first query of each tile of kBlockQ queries that may hold a query that sees one of the keys
// [j0, j0 + num_keys).
template <int kBlockQ, class Seq>
__device__ __forceinline__ Tiles<kBlockQ> q_tiles(const Seq& seq, int j0, int num_keys) {
  return {"Q tile", visible_queries(seq, j0, j0 + num_keys)};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILES_H_
