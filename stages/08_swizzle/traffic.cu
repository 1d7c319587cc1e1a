// What 08_swizzle asks for.
#include "harness/tile_of.h"
#include "kernel.cuh"

namespace cuflash::swizzle {
namespace {

using namespace harness;

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile_of<Config>(p)); }

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile_of<Config>}, {}};

}  // namespace cuflash::swizzle
