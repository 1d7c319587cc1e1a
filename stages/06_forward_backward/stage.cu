// 06_forward_backward: what the stage can do, and the host code that launches its kernels.
#include <algorithm>

#include "device/grid.h"
#include "device/pass.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::forward_backward {
namespace {

template <class T, int kHeadDim>
struct ForwardKernels {
  using C = Config<kHeadDim>;
  using Storage = SharedStorage<T, kHeadDim>;
  static constexpr std::size_t kSharedBytes = sizeof(Storage);
  static_assert(kSharedBytes <= kSharedBytesOfSm75, "a block fits every device built for");

  static FlashAttentionError run(const ForwardParams& p, cudaStream_t stream) {
    return queue(stream,
                 block_each_q_tile<Storage>(C::kBlockQ, C::kThreads, attention<T, kHeadDim>, p));
  }
};

template <class T, int kHeadDim>
struct BackwardKernels {
  using C = BackwardConfig<kHeadDim>;
  using Query = QueryStorage<T, kHeadDim>;
  using KeyValue = KeyValueStorage<T, kHeadDim>;
  static constexpr std::size_t kSharedBytes = std::max(sizeof(Query), sizeof(KeyValue));
  static_assert(kSharedBytes <= kSharedBytesOfSm75, "a block fits every device built for");

  static FlashAttentionError run(const BackwardParams& p, cudaStream_t stream) {
    const auto delta = static_cast<float*>(p.workspace);
    return queue(
        stream,
        block_each_q_tile<Query>(C::kOwned, C::kThreads, query_gradient<T, kHeadDim>, p, delta),
        block_each_kv_tile<KeyValue>(C::kOwned, C::kThreads, key_value_gradient<T, kHeadDim>, p,
                                     delta)
            .only_if(p.dk.data != nullptr || p.dv.data != nullptr));
  }
};

Rank rank(const Problem&) { return {60, "both passes on the tensor cores"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "06_forward_backward";
  stage.teaches = "the training pair in f16: the backward's seven products on the tensor cores";
  stage.removes = "a backward pass of single multiply-adds";
  stage.limiter = "shared memory: operands' fragments, P and dS pass through it";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, UsualHeadDims>();
  stage.forward.arch.for_bf16 = 80;
  stage.forward.features = kEveryFeature;
  stage.forward.repeats = "05_wmma";
  stage.forward.rank = rank;
  stage.backward = backward_pass<BackwardKernels, TensorCoreTypes, UsualHeadDims>();
  stage.backward.arch.for_bf16 = 80;
  stage.backward.features = kEveryFeature;
  stage.backward.workspace_bytes = float_each_row;
  stage.backward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::forward_backward
