// What 03_online_softmax asks for: no S and no P.
#include "device/instances.h"
#include "harness/traffic.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::online_softmax {
namespace {

using namespace harness;

Tile forward_tile(const Problem&) { return {Config<float>::kBlockQ, Config<float>::kBlockKV}; }

Tile backward_tile(const Problem& p) {
  return dispatch(EveryType{}, UsualHeadDims{}, p, Tile{}, [](auto type, auto head_dim) {
    using C = BackwardConfig<typename decltype(type)::Type, head_dim()>;
    return Tile{C::kOwned, C::kStreamed};
  });
}

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile(p)); }

// The LSE is read by all 32 lanes of a warp; LSE and delta by each of 8 warps.
Traffic backward(const Problem& p) { return fused_backward(p, backward_tile(p), {3, 32, 8}); }

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile}, {backward, backward_tile}};

}  // namespace cuflash::online_softmax
