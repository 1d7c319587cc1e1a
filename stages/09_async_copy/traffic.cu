// What 09_async_copy asks for.
#include "harness/tile_of.h"
#include "kernel.cuh"

namespace cuflash::async_copy {
namespace {

using namespace harness;

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile_of<Config>(p)); }

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile_of<Config>}, {}};

}  // namespace cuflash::async_copy
