// The keys of a sequence in a cache: where they begin and end, and in which cache they are, is
// known on the device only.
#ifndef CUFLASH_DEVICE_CACHE_H_
#define CUFLASH_DEVICE_CACHE_H_

#include <cuda_runtime.h>

#include <climits>

#include "device/tensor.h"

namespace cuflash {

// A sequence whose keys are those from k_begin to num_keys − 1 of a cache. Its mask is aligned at
// the last of them.
struct CachedSequence : Sequence {
  int k_begin;    // left padding: no query sees the keys before it
  int cache;      // the batch of K and V that holds the keys
  bool is_valid;  // false if the length is below 0 or above the capacity: all rows are NaN
};

// The sequence of a batch, from a kernel's parameters.
__device__ __forceinline__ CachedSequence cached_sequence(const ForwardParams& p, int batch) {
  const int length = p.seqused_k != nullptr ? p.seqused_k[batch] : p.seq_kv;
  const bool is_valid = 0 <= length && length <= p.seq_kv;
  const int num_keys = is_valid ? length : 0;
  // The band was made for seq_kv keys. With fewer, its diagonals lie further to the left.
  Band band = p;
  const int unused = p.seq_kv - num_keys;
  if (band.last_diagonal != INT_MAX) band.last_diagonal -= unused;
  if (band.first_diagonal != INT_MIN) {
    band.first_diagonal = max(band.first_diagonal, INT_MIN + unused) - unused;
  }
  band.width =
      static_cast<unsigned>(band.last_diagonal) - static_cast<unsigned>(band.first_diagonal);
  const int k_begin = p.k_begin != nullptr ? max(p.k_begin[batch], 0) : 0;
  const int cache = p.kv_batch != nullptr ? p.kv_batch[batch] : batch;
  return {{p.seq_q, num_keys, band}, k_begin, cache, is_valid};
}

__device__ __forceinline__ bool visible(const CachedSequence& seq, int i, int j) {
  return j >= seq.k_begin && visible(static_cast<const Sequence&>(seq), i, j);
}

__device__ __forceinline__ bool all_visible(const CachedSequence& seq, int i0, int num_queries,
                                            int j0, int num_keys) {
  return j0 >= seq.k_begin &&
         all_visible(static_cast<const Sequence&>(seq), i0, num_queries, j0, num_keys);
}

__device__ __forceinline__ Range visible_keys(const CachedSequence& seq, int begin, int end) {
  const Range keys = visible_keys(static_cast<const Sequence&>(seq), begin, end);
  return {max(keys.begin, seq.k_begin), keys.end};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_CACHE_H_
