// Which tile of queries a block computes (stage 09_async_copy explains the order).
#ifndef CUFLASH_DEVICE_BLOCK_ORDER_H_
#define CUFLASH_DEVICE_BLOCK_ORDER_H_

#include <cuda_runtime.h>

#include <climits>

#include "device/index.h"
#include "device/registers.h"
#include "device/tensor.h"

namespace cuflash {

// The batch, head and tile of queries of a block, where a head has `tiles`. If the mask lets tiles
// see different numbers of keys, the last tiles of all heads come first, because they take longest.
// Otherwise the tiles of a head follow each other, so that concurrent blocks share its K and V in
// the L2 cache.
__device__ __forceinline__ Place place_of_block(const ForwardParams& p, int tiles) {
  const unsigned n = blockIdx.x, heads = p.batch * p.heads_q;
  const bool unequal = p.width != UINT_MAX;
  const int tile = unequal ? tiles - 1 - n / heads : n % tiles,
            head = unequal ? n % heads : n / tiles;
  return uniform({head / p.heads_q, head % p.heads_q, tile, 0});
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_BLOCK_ORDER_H_
