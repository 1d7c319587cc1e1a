// What 04_register_tiles asks for.
#include "harness/tile_of.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::register_tiles {
namespace {

using namespace harness;

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile_of<Config>(p)); }

// dO is read once more, for delta; the LSE by the 8 lanes that share a row; LSE and delta once for
// every 4 keys of the block.
Traffic backward(const Problem& p) {
  const Tile tile = backward_tile_of<BackwardConfig>(p);
  return fused_backward(p, tile, {4, 8, std::uint64_t(tile.owned / 4)});
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile_of<Config>},
                               {backward, backward_tile_of<BackwardConfig>}};

}  // namespace cuflash::register_tiles
