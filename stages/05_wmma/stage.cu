// 05_wmma: what the stage can do, and the host code that launches its kernel.
#include "device/host/fused.h"
#include "device/host/pass.h"
#include "kernel.cuh"

namespace cuflash::wmma {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForward<Config<kHeadDim>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;
static_assert(largest_block<ForwardKernels>(TensorCoreTypes{}, UsualHeadDims{}) <=
                  kSharedBytesOfSm75,
              "64 KB hold kBlockQ x kBlockKV of 64 x 32, 128 x 16 for a head_dim of 128, 64 x 64, "
              "128 x 32 for 64");

constexpr Stage describe() {
  Stage stage;
  stage.name = "05_wmma";
  stage.teaches = "both products on the tensor cores, through nvcuda::wmma";
  stage.removes = "single multiply-adds";
  stage.limiter = "shared memory: S, P and the operands' fragments pass through it";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, UsualHeadDims>();
  stage.forward.follows = "04_register_tiles";
  stage.forward.arch.for_bf16 = 80;
  stage.forward.features = kDenseFeatures;
  stage.forward.products_by = ProductsBy::kMma;
  stage.forward.products = products<2>;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::wmma
