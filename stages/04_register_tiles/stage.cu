// 04_register_tiles: what the stage can do, and the host code that launches its kernels.
#include "device/host/fused.h"
#include "device/host/pass.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::register_tiles {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForward<Config<kHeadDim>, SharedStorage<kHeadDim>, attention<T, kHeadDim>>;
static_assert(largest_block<ForwardKernels>(EveryType{}, UsualHeadDims{}) <= kSharedBytesOfSm75,
              "64 KB hold kBlockQ x kBlockKV of 64 x 32 for a head_dim of 128, of 80 x 64 for 64");

template <class T, int kHeadDim>
using BackwardKernels =
    FusedBackward<BackwardConfig<kHeadDim>, QueryStorage<kHeadDim>, query_gradient<T, kHeadDim>,
                  KeyValueStorage<kHeadDim>, key_value_gradient<T, kHeadDim>>;
static_assert(largest_block<BackwardKernels>(EveryType{}, UsualHeadDims{}) <= kSharedBytesOfSm75,
              "64 KB hold kOwned x kStreamed of 32 x 16 for a head_dim of 128, of 64 x 32 for 64");

Rank rank(const Problem&) { return {40, "the fastest without tensor cores"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "04_register_tiles";
  stage.teaches = "each thread computes a small tile of S and O in registers, from vector loads";
  stage.removes = "a shared load and a conversion for every few multiply-adds";
  stage.limiter = "the registers: two banks cannot deliver a multiply-add's operands in one cycle";
  stage.forward = forward_pass<ForwardKernels, EveryType, UsualHeadDims>();
  stage.forward.follows = "03_online_softmax";
  stage.forward.features = kDenseFeatures;
  stage.forward.products = products<2>;
  stage.forward.rank = rank;
  stage.backward = backward_pass<BackwardKernels, EveryType, UsualHeadDims>();
  stage.backward.follows = "03_online_softmax";
  stage.backward.features = kDenseFeatures;
  stage.backward.products = products<7>;
  stage.backward.workspace_bytes = one_float_per_row;
  stage.backward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::register_tiles
