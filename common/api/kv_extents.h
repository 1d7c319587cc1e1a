// The extents of K and V.
#ifndef CUFLASH_API_KV_EXTENTS_H_
#define CUFLASH_API_KV_EXTENTS_H_

#include <algorithm>

#include "cuflash/problem.h"

namespace cuflash {

struct KvExtents {
  int batches, seq;
};

// The extents of K and V, for the checks of their strides: pages are batches of page_size rows.
// With kv_batch the number of batches is known to the caller only: at least two are assumed, so
// that batch_stride is never ignored.
inline KvExtents kv_extents(const Problem& p, const Forward& args) {
  if (p.page_size != 0) return {p.num_pages, p.page_size};
  return {args.kv_batch == nullptr ? p.batch : std::max(p.batch, 2), p.seq_kv};
}

}  // namespace cuflash

#endif  // CUFLASH_API_KV_EXTENTS_H_
