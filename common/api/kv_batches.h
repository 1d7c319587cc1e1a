// The batches of K and V.
#ifndef CUFLASH_API_KV_BATCHES_H_
#define CUFLASH_API_KV_BATCHES_H_

#include <algorithm>

#include "cuflash/problem.h"

namespace cuflash {

// The batches of K and V, for the checks of their strides. With kv_batch their number is known to
// the caller only: at least two are assumed, so that batch_stride is never ignored.
inline int kv_batches(const Problem& p, const Forward& args) {
  return args.kv_batch == nullptr ? p.batch : std::max(p.batch, 2);
}

}  // namespace cuflash

#endif  // CUFLASH_API_KV_BATCHES_H_
