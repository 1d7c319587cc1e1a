// What 06_forward_backward asks for: every datum of a tile once.
#include "harness/tile_of.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::forward_backward {
namespace {

using namespace harness;

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile_of<Config>(p)); }

Traffic backward(const Problem& p) {
  return fused_backward(p, backward_tile_of<BackwardConfig>(p), {3, 1, 1});
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile_of<Config>},
                               {backward, backward_tile_of<BackwardConfig>}};

}  // namespace cuflash::forward_backward
