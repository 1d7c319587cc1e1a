// What 06_forward_backward asks for: every datum of a tile once.
#include "device/types.h"
#include "harness/traffic.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::forward_backward {
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

Traffic backward(const Problem& p) { return fused_backward(p, backward_tile(p), {3, 1, 1}); }

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile}, {backward, backward_tile}};

}  // namespace cuflash::forward_backward
