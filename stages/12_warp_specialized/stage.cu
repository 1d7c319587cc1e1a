// 12_warp_specialized: what the stage can do, and the host code that launches its kernel.
#include "device/host/fused_with_maps.h"
#include "device/host/pass.h"
#include "kernel.cuh"

namespace cuflash::warp_specialized {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForwardWithMaps<Config<kHeadDim>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;

Rank rank(const Problem&) { return {120, "a producer keeps the tiles coming"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "12_warp_specialized";
  stage.teaches = "a producer that loads, consumers that compute";
  stage.removes = "requests between products";
  stage.limiter = "softmax between the products";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.forward.follows = "11_wgmma";
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

}  // namespace cuflash::warp_specialized
