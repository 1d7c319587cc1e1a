// The tile of a stage's kernels, where only head_dim decides it.
#ifndef CUFLASH_HARNESS_TILE_OF_H_
#define CUFLASH_HARNESS_TILE_OF_H_

#include "device/instances.h"
#include "harness/traffic.h"

namespace cuflash::harness {

// Of Config<head_dim>, with kBlockQ queries that a block owns and kBlockKV keys that it streams.
template <template <int> class Config>
Tile forward_tile_of(const Problem& p) {
  return dispatch(EveryType{}, UsualHeadDims{}, p, Tile{}, [](auto, auto head_dim) {
    using C = Config<head_dim()>;
    return Tile{C::kBlockQ, C::kBlockKV};
  });
}

// Of Config<head_dim>, with kOwned rows that a block owns and kStreamed rows that it streams.
template <template <int> class Config>
Tile backward_tile_of(const Problem& p) {
  return dispatch(EveryType{}, UsualHeadDims{}, p, Tile{}, [](auto, auto head_dim) {
    using C = Config<head_dim()>;
    return Tile{C::kOwned, C::kStreamed};
  });
}

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_TILE_OF_H_
