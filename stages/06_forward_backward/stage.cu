// 06_forward_backward: what the stage can do, and the host code that launches its kernels.
#include "device/host/fused.h"
#include "device/host/pass.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::forward_backward {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForward<Config<kHeadDim>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;
static_assert(largest_block<ForwardKernels>(TensorCoreTypes{}, UsualHeadDims{}) <=
                  kSharedBytesOfSm75,
              "64 KB hold kBlockQ x kBlockKV of 64 x 32, 128 x 16 for a head_dim of 128, 64 x 64, "
              "128 x 32 for 64");

template <class T, int kHeadDim>
using BackwardKernels =
    FusedBackward<BackwardConfig<kHeadDim>, QueryStorage<T, kHeadDim>, query_gradient<T, kHeadDim>,
                  KeyValueStorage<T, kHeadDim>, key_value_gradient<T, kHeadDim>>;
static_assert(largest_block<BackwardKernels>(TensorCoreTypes{}, UsualHeadDims{}) <=
                  kSharedBytesOfSm75,
              "64 KB hold kOwned x kStreamed of 64 x 32 for a head_dim of 128, of 64 x 64 for 64");

Rank rank(const Problem&) { return {60, "both passes on the tensor cores"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "06_forward_backward";
  stage.teaches = "the backward pass on the tensor cores, too: seven products";
  stage.removes = "a backward pass of single multiply-adds";
  stage.limiter = "shared memory: operands' fragments, P and dS pass through it";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, UsualHeadDims>();
  stage.forward.follows = "05_wmma";
  stage.forward.arch.for_bf16 = 80;
  stage.forward.features = kDenseFeatures;
  stage.forward.products_by = ProductsBy::kMma;
  stage.forward.products = products<2>;
  stage.forward.repeats = true;
  stage.forward.rank = rank;
  stage.backward = backward_pass<BackwardKernels, TensorCoreTypes, UsualHeadDims>();
  stage.backward.follows = "04_register_tiles";
  stage.backward.arch.for_bf16 = 80;
  stage.backward.features = kDenseFeatures;
  stage.backward.products_by = ProductsBy::kMma;
  stage.backward.products = products<7>;
  stage.backward.workspace_bytes = one_float_per_row;
  stage.backward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::forward_backward
