// 03_online_softmax: what the stage can do, and the host code that launches its kernels.
#include "device/host/fused.h"
#include "device/host/pass.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::online_softmax {
namespace {

template <class T, int kHeadDim>
using ForwardKernels = FusedForward<Config<T>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;
static_assert(largest_block<ForwardKernels>(EveryType{}, UsualHeadDims{}) <= kSharedBytesOfSm75,
              "64 KB hold a kBlockQ of up to 48");

template <class T, int kHeadDim>
using BackwardKernels = FusedBackward<BackwardConfig<T, kHeadDim>, QueryStorage<T, kHeadDim>,
                                      query_gradient<T, kHeadDim>, KeyValueStorage<T, kHeadDim>,
                                      key_value_gradient<T, kHeadDim>>;
static_assert(largest_block<BackwardKernels>(EveryType{}, UsualHeadDims{}) <= kSharedBytesOfSm75,
              "64 KB hold a kOwned of up to 24 for rows of 512 bytes, 56 for 256");

constexpr Stage describe() {
  Stage stage;
  stage.name = "03_online_softmax";
  stage.teaches = "one fused kernel: running maximum and sum; S and P stay on the chip";
  stage.removes = "writing and reading S and P in global memory";
  stage.limiter = "issue slots: in f16, most instructions are not multiply-adds";
  stage.forward = forward_pass<ForwardKernels, EveryType, UsualHeadDims>();
  stage.forward.follows = "02_tiled";
  stage.forward.features = kDenseFeatures;
  stage.forward.products = products<2>;
  stage.backward = backward_pass<BackwardKernels, EveryType, UsualHeadDims>();
  stage.backward.follows = "01_naive";
  stage.backward.features = kDenseFeatures;
  stage.backward.products = products<7>;
  stage.backward.workspace_bytes = one_float_per_row;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::online_softmax
