// 03_online_softmax: what the stage can do, and the host code that launches its kernels.
#include <algorithm>

#include "device/grid.h"
#include "device/pass.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::online_softmax {
namespace {

template <class T, int kHeadDim>
struct ForwardKernels {
  using C = Config<T>;
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
  using C = BackwardConfig<T, kHeadDim>;
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

constexpr Stage describe() {
  Stage stage;
  stage.name = "03_online_softmax";
  stage.teaches = "one fused kernel: running maximum and sum; S and P stay on the chip";
  stage.removes = "writing and reading S and P in global memory";
  stage.limiter = "issue slots: conversions and shared loads outnumber multiply-adds";
  stage.forward = forward_pass<ForwardKernels, EveryType, UsualHeadDims>();
  stage.forward.features = kEveryFeature;
  stage.backward = backward_pass<BackwardKernels, EveryType, UsualHeadDims>();
  stage.backward.features = kEveryFeature;
  stage.backward.workspace_bytes = float_each_row;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::online_softmax
