// 04_register_tiles: what the stage can do, and the host code that launches its kernels.
#include <algorithm>

#include "device/grid.h"
#include "device/pass.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::register_tiles {
namespace {

template <class T, int kHeadDim>
struct ForwardKernels {
  using C = Config<kHeadDim>;
  using Storage = SharedStorage<kHeadDim>;
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
  using Query = QueryStorage<kHeadDim>;
  using KeyValue = KeyValueStorage<kHeadDim>;
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

Rank rank(const Problem&) { return {40, "the fastest without tensor cores"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "04_register_tiles";
  stage.teaches = "each thread computes a small tile of S and O in registers, from vector loads";
  stage.removes = "a shared load and a conversion for every few multiply-adds";
  stage.limiter = "the f32 units: multiply-adds fill the issue slots";
  stage.forward = forward_pass<ForwardKernels, EveryType, UsualHeadDims>();
  stage.forward.features = kEveryFeature;
  stage.forward.rank = rank;
  stage.backward = backward_pass<BackwardKernels, EveryType, UsualHeadDims>();
  stage.backward.features = kEveryFeature;
  stage.backward.workspace_bytes = float_each_row;
  stage.backward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::register_tiles
