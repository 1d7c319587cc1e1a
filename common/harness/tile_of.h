// The tile of a stage's kernels, for stages whose tile depends on head_dim alone.
#ifndef CUFLASH_HARNESS_TILE_OF_H_
#define CUFLASH_HARNESS_TILE_OF_H_

#include "device/instances.h"
#include "harness/traffic.h"

namespace cuflash::harness {

// The tile of Config<head_dim>: a block owns kBlockQ queries and streams kBlockKV keys at a time.
// kEndMultiple is the tile's end_multiple.
template <template <int> class Config, class Dims = UsualHeadDims, int kEndMultiple = 0>
Tile forward_tile_of(const Problem& p) {
  return dispatch(EveryType{}, Dims{}, p, Tile{}, [](auto, auto head_dim) {
    using C = Config<head_dim()>;
    return Tile{C::kBlockQ, C::kBlockKV, kEndMultiple};
  });
}

// The tile of Config<head_dim>: a block owns kOwned rows and streams kStreamed rows at a time.
template <template <int> class Config, class Dims = UsualHeadDims>
Tile backward_tile_of(const Problem& p) {
  return dispatch(EveryType{}, Dims{}, p, Tile{}, [](auto, auto head_dim) {
    using C = Config<head_dim()>;
    return Tile{C::kOwned, C::kStreamed};
  });
}

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_TILE_OF_H_
