// 08_swizzle: what the stage can do, and the host code that launches its kernel.
#include "device/host/fused.h"
#include "device/host/pass.h"
#include "kernel.cuh"

namespace cuflash::swizzle {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForward<Config<kHeadDim>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;
static_assert(largest_block<ForwardKernels>(TensorCoreTypes{}, UsualHeadDims{}) <=
                  kSharedBytesOfSm86,
              "99 KB hold kBlockQ x kBlockKV of 128 x 64 for a head_dim of 128");

constexpr Stage describe() {
  Stage stage;
  stage.name = "08_swizzle";
  stage.teaches = "an XOR layout instead of padding, which makes room for two buffers of K and V";
  stage.removes = "padding, and one of the two barriers of a tile";
  stage.limiter = "loads through registers, for which a warp waits before it computes";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, UsualHeadDims>();
  stage.forward.follows = "07_mma_registers";
  stage.forward.arch = {80};
  stage.forward.features = kDenseFeatures;
  stage.forward.products_by = ProductsBy::kMma;
  stage.forward.products = products<2>;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::swizzle
