// What 14_persistent asks for.
#include "harness/tile_of.h"
#include "kernel.cuh"

namespace cuflash::persistent {
namespace {

using namespace harness;

constexpr auto forward_tile = forward_tile_of<Config, EveryHeadDim, kWgmmaM>;

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile(p)); }

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile}, {}};

}  // namespace cuflash::persistent
