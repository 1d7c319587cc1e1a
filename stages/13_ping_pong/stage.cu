// 13_ping_pong: what the stage can do, and the host code that launches its kernel.
#include "device/host/fused_with_maps.h"
#include "device/host/pass.h"
#include "kernel.cuh"

namespace cuflash::ping_pong {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForwardWithMaps<Config<kHeadDim>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;

Rank rank(const Problem&) { return {130, "softmax and products side by side"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "13_ping_pong";
  stage.teaches = "softmax during products; warpgroups take turns";
  stage.removes = "idle tensor cores during a softmax";
  stage.limiter = "the start and the end of a block";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.forward.follows = "12_warp_specialized";
  stage.forward.arch = {90, true};
  stage.forward.features = kDenseFeatures.without(Feature::kAnyStride);
  stage.forward.products_by = ProductsBy::kWgmma;
  stage.forward.products = products<2>;
  stage.forward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::ping_pong
