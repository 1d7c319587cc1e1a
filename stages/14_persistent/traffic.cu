// What 14_persistent asks for.
#include "harness/tile_of.h"
#include "kernel.cuh"

namespace cuflash::persistent {
namespace {

using namespace harness;

constexpr auto forward_tile = forward_tile_of<Config, EveryHeadDim, kWgmmaM>;

// A warp whose terms of P are too large reads K of the tile again.
Traffic forward(const Problem& p) {
  Traffic traffic = fused_forward(p, forward_tile(p));
  traffic.again_bytes = element_bytes(p.dtype) * forward_tile(p).streamed * p.head_dim;
  return traffic;
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile}, {}};

}  // namespace cuflash::persistent
