// Which keys a query sees: the only place that defines masks.
//
// A mask here is a band of diagonals of S, with its own lengths and band for each batch: causal, a
// window, or both. Other masks cannot be expressed: a prefix that all queries see, blocks,
// documents in one sequence, or a mask that depends on the head.
//
// Another mask goes into its stage's folder, in about ten lines (CONTRIBUTING.md, "Compute
// something else"): its own Sequence, made from this one, with overloads of visible(),
// visible_keys(), visible_queries() and, if the mask hides keys that the band shows, all_visible().
// Kernels and tiles.h then use the overloads. visible() must be exact. The others may be
// conservative: all_visible() may return false, and a range may hold extra rows, except in 01,
// which reads a whole range.
#ifndef CUFLASH_DEVICE_MASK_H_
#define CUFLASH_DEVICE_MASK_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>
#include <cstdint>

#include "cuflash/problem.h"

namespace cuflash {

// The rows from begin to end − 1.
struct Range {
  int begin, end;
};

// The diagonals j − i of S that are visible, from the first to the last. An unbounded side is
// INT_MIN or INT_MAX.
struct Band {
  int first_diagonal, last_diagonal;
  unsigned width;  // last_diagonal − first_diagonal

  explicit Band(const Problem& p) : first_diagonal(INT_MIN), last_diagonal(INT_MAX) {
    // The last query lies on the diagonal of the last key.
    const std::int64_t offset = std::int64_t{p.seq_kv} - p.seq_q;
    const int right = p.causal ? 0 : p.window_right;
    if (p.window_left >= 0) {
      first_diagonal = static_cast<int>(std::max<std::int64_t>(INT_MIN, offset - p.window_left));
    }
    if (right >= 0) {
      last_diagonal = static_cast<int>(std::min<std::int64_t>(INT_MAX, offset + right));
    }
    width = static_cast<unsigned>(last_diagonal) - static_cast<unsigned>(first_diagonal);
  }
};

// The sequences of one batch: the numbers of queries and keys per head, and the mask. Kernels take
// lengths from here, not from the problem, whose lengths are those of the tensors.
struct Sequence {
  int num_queries, num_keys;
  Band band;
};

// The sequences of a batch, from a kernel's parameters.
template <class Params>
__device__ __forceinline__ Sequence sequence(const Params& p, int /*batch*/) {
  return {p.seq_q, p.seq_kv, p};
}

// True if query i sees key j: first_diagonal <= j − i <= last_diagonal. One comparison tests both
// bounds: a negative distance from the last diagonal wraps to a value above the width.
__device__ __forceinline__ bool visible(const Sequence& seq, int i, int j) {
  return static_cast<unsigned>(i) + static_cast<unsigned>(seq.band.last_diagonal) -
             static_cast<unsigned>(j) <=
         seq.band.width;
}

// True if each of the queries [i0, i0 + num_queries) sees each of the keys [j0, j0 + num_keys), so
// that a tile needs no mask.
__device__ __forceinline__ bool all_visible(const Sequence& seq, int i0, int num_queries, int j0,
                                            int num_keys) {
  return j0 + num_keys <= seq.num_keys && visible(seq, i0, j0 + num_keys - 1) &&
         visible(seq, i0 + num_queries - 1, j0);
}

// A range, possibly empty, that holds every key that any of the queries [begin, end) sees.
__device__ __forceinline__ Range visible_keys(const Sequence& seq, int begin, int end) {
  const std::int64_t last = min(end, seq.num_queries) - 1;
  const std::int64_t keys_end = min(last + seq.band.last_diagonal + 1, std::int64_t{seq.num_keys});
  return {max(begin + seq.band.first_diagonal, 0), static_cast<int>(keys_end)};
}

// A range of keys, possibly empty, that all queries [begin, end) see.
__device__ __forceinline__ Range keys_visible_to_all(const Sequence& seq, int begin, int end) {
  const std::int64_t last = min(end, seq.num_queries) - 1, first = begin;
  const std::int64_t keys_begin = max(last + seq.band.first_diagonal, std::int64_t{0});
  const std::int64_t keys_end = min(first + seq.band.last_diagonal + 1, std::int64_t{seq.num_keys});
  return {static_cast<int>(min(keys_begin, keys_end)), static_cast<int>(keys_end)};
}

// A range, possibly empty, that holds every query that sees any of the keys [begin, end).
__device__ __forceinline__ Range visible_queries(const Sequence& seq, int begin, int end) {
  const std::int64_t all = seq.num_queries, first = begin, last = min(end, seq.num_keys) - 1;
  const std::int64_t queries_begin = max(first - seq.band.last_diagonal, std::int64_t{0});
  const std::int64_t queries_end = min(last - seq.band.first_diagonal + 1, all);
  return {static_cast<int>(min(queries_begin, all)), static_cast<int>(queries_end)};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_MASK_H_
