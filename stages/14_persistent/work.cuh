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
  int batch, head;
  int i0;                            // the first query
  Range tiles;                       // of keys, that some of the queries see,
  KeyTiles consumer[C::kConsumers];  // and for each consumer's queries
};

// The tiles of keys for the queries [begin, end). Queries that do not exist see none.
template <class C>
__device__ __forceinline__ KeyTiles key_tiles(const Sequence& seq, int begin, int end) {
  const Range keys = visible_keys(seq, begin, end), full = keys_visible_to_all(seq, begin, end);
  const int first = keys.begin / C::kBlockKV;
  const bool any = begin < seq.num_queries && keys.begin < keys.end;
  return {{first, any ? (keys.end - 1) / C::kBlockKV + 1 : first},
          {(full.begin + C::kBlockKV - 1) / C::kBlockKV, full.end / C::kBlockKV}};
}

// The nth tile of queries, head by head. If the mask lets them see different numbers of keys, the
// longest of a head comes first, then the shortest, then the second longest, ...
template <class C>
__device__ __forceinline__ void find_work(Work<C>& work, const ForwardParams& p, unsigned n) {
  const unsigned tiles = num_tiles(p.seq_q, C::kBlockQ), head = n / tiles, nth = n % tiles;
  const bool unequal = p.width != UINT_MAX, short_one = nth % 2 != 0;
  const unsigned block = !unequal ? nth : short_one ? nth / 2 : tiles - 1 - nth / 2;
  const int b = head / p.heads_q, i0 = block * C::kBlockQ;
  const Sequence seq = sequence(p, b);
  work.batch = b, work.head = head % p.heads_q, work.i0 = i0;
  work.tiles = key_tiles<C>(seq, i0, i0 + C::kBlockQ).visible;
#pragma unroll 1
  for (int c = 0; c < C::kConsumers; ++c) {
    work.consumer[c] = key_tiles<C>(seq, i0 + c * kWgmmaM, i0 + (c + 1) * kWgmmaM);
  }
}

}  // namespace cuflash::persistent
