// Which keys a query sees: the one place that knows masks. A new mask changes these four functions.
#ifndef CUFLASH_DEVICE_MASK_H_
#define CUFLASH_DEVICE_MASK_H_

#include <cuda_runtime.h>

#include "cuflash/problem.h"

namespace cuflash {

// The rows begin, …, end − 1.
struct Range {
  int begin, end;
};

// Does query i see key j?
__device__ __forceinline__ bool visible(const Problem& p, int i, int j) {
  return !p.causal || j <= i + (p.seq_kv - p.seq_q);
}

// Do the query i and all after it see all the keys [begin, begin + num_keys), and are there so
// many?
__device__ __forceinline__ bool all_visible(const Problem& p, int i, int begin, int num_keys) {
  return begin + num_keys <= p.seq_kv && visible(p, i, begin + num_keys - 1);
}

// The keys that the queries [begin, end) see all lie in this range; it may be empty.
__device__ __forceinline__ Range visible_keys(const Problem& p, int /*begin*/, int end) {
  const int last = min(end, p.seq_q) - 1;
  return {0, p.causal ? max(0, last + (p.seq_kv - p.seq_q) + 1) : p.seq_kv};
}

// The queries that see one of the keys [begin, end) all lie in this range.
__device__ __forceinline__ Range visible_queries(const Problem& p, int begin, int /*end*/) {
  return {p.causal ? max(0, begin - (p.seq_kv - p.seq_q)) : 0, p.seq_q};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_MASK_H_
