// What 16_overlapped_backward asks for.
#include "harness/tile_of.h"
#include "shape.cuh"

namespace cuflash::overlapped_backward {
namespace {

using namespace harness;

constexpr auto backward_tile = backward_tile_of<BackwardConfig, UsualHeadDims>;

Traffic backward(const Problem& p) { return added_backward(p, backward_tile(p)); }

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{}, {backward, backward_tile}};

}  // namespace cuflash::overlapped_backward
