// What 05_wmma asks for.
#include "device/types.h"
#include "harness/traffic.h"
#include "kernel.cuh"

namespace cuflash::wmma {
namespace {

using namespace harness;

Tile forward_tile(const Problem& p) {
  return dispatch(EveryType{}, UsualHeadDims{}, p, Tile{}, [](auto, auto head_dim) {
    using C = Config<head_dim()>;
    return Tile{C::kBlockQ, C::kBlockKV};
  });
}

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile(p)); }

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile}, {}};

}  // namespace cuflash::wmma
