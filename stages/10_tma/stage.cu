// 10_tma: what the stage can do, and the host code that launches its kernel.
#include "device/host/fused_with_maps.h"
#include "device/host/pass.h"
#include "kernel.cuh"

namespace cuflash::tma {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForwardWithMaps<Config<kHeadDim>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;

Rank rank(const Problem& p) {
  if (p.head_dim < 96) return {90, "as fast as copies by the warps"};
  return {100, "copies take no instructions of the warps"};
}

constexpr Stage describe() {
  Stage stage;
  stage.name = "10_tma";
  stage.teaches = "TMA and mbarrier: one thread requests whole tiles";
  stage.removes = "the instructions that copy";
  stage.limiter = "the rate of mma.sync";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.forward.follows = "09_async_copy";
  stage.forward.arch = {90};
  stage.forward.features = kDenseFeatures.without(Feature::kAnyStride);
  stage.forward.products_by = ProductsBy::kMma;
  stage.forward.products = products<2>;
  stage.forward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::tma
