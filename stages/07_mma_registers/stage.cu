// 07_mma_registers: what the stage can do, and the host code that launches its kernel.
#include "device/host/fused.h"
#include "device/host/pass.h"
#include "kernel.cuh"

namespace cuflash::mma_registers {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForward<Config<kHeadDim>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;
static_assert(largest_block<ForwardKernels>(TensorCoreTypes{}, UsualHeadDims{}) <=
                  kSharedBytesOfSm86,
              "99 KB hold kBlockQ x kBlockKV of 128 x 64 for a head_dim of 128");

constexpr Stage describe() {
  Stage stage;
  stage.name = "07_mma_registers";
  stage.teaches = "mma.sync and ldmatrix: S, P and O never leave registers";
  stage.removes = "S, P and O's factors passing through shared memory";
  stage.limiter = "shared memory: every warp loads all of K and V for 16 queries";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, UsualHeadDims>();
  stage.forward.follows = "06_forward_backward";
  stage.forward.arch = {80};
  stage.forward.features = kDenseFeatures;
  stage.forward.products_by = ProductsBy::kMma;
  stage.forward.products = products<2>;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::mma_registers
