// What 04_register_tiles asks for.
#include "device/types.h"
#include "harness/traffic.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::register_tiles {
namespace {

using namespace harness;

Tile forward_tile(const Problem& p) {
  return dispatch(EveryType{}, UsualHeadDims{}, p, Tile{}, [](auto, auto head_dim) {
    using C = Config<head_dim()>;
    return Tile{C::kBlockQ, C::kBlockKV};
  });
}

Tile backward_tile(const Problem& p) {
  return dispatch(EveryType{}, UsualHeadDims{}, p, Tile{}, [](auto, auto head_dim) {
    using C = BackwardConfig<head_dim()>;
    return Tile{C::kOwned, C::kStreamed};
  });
}

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile(p)); }

// dO is read once more, for delta; the LSE by the 8 lanes that share a row; LSE and delta once for
// every 4 keys of the block.
Traffic backward(const Problem& p) {
  const Tile tile = backward_tile(p);
  return fused_backward(p, tile, {4, 8, std::uint64_t(tile.owned / 4)});
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile}, {backward, backward_tile}};

}  // namespace cuflash::register_tiles
