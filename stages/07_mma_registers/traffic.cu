// What 07_mma_registers asks for.
#include "harness/tile_of.h"
#include "kernel.cuh"

namespace cuflash::mma_registers {
namespace {

using namespace harness;

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile_of<Config>(p)); }

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile_of<Config>}, {}};

}  // namespace cuflash::mma_registers
