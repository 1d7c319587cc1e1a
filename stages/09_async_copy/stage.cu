// 09_async_copy: what the stage can do, and the host code that launches its kernels.
#include "device/fused.h"
#include "device/pass.h"
#include "kernel.cuh"

namespace cuflash::async_copy {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForward<Config<kHeadDim>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;
static_assert(largest_block<ForwardKernels>(TensorCoreTypes{}, EveryHeadDim{}) <=
                  kSharedBytesOfSm86,
              "99 KB hold the largest block");

constexpr Stage describe() {
  Stage stage;
  stage.name = "09_async_copy";
  stage.teaches = "cp.async: tiles arrive while the warps compute";
  stage.removes = "waiting for loads";
  stage.limiter = "the tensor cores' rate by mma.sync";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.forward.arch = {80};
  stage.forward.features = kEveryFeature;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::async_copy
