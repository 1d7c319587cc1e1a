// What 15_wgmma_backward asks for.
#include "harness/tile_of.h"
#include "shape.cuh"

namespace cuflash::wgmma_backward {
namespace {

using namespace harness;

constexpr auto backward_tile = backward_tile_of<BackwardConfig, EveryHeadDim>;

Traffic backward(const Problem& p) { return added_backward(p, backward_tile(p)); }

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{}, {backward, backward_tile}};

}  // namespace cuflash::wgmma_backward
