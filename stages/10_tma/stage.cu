// 10_tma: what the stage can do, and the host code that launches its kernel.
#include "device/grid.h"
#include "device/pass.h"
#include "kernel.cuh"

namespace cuflash::tma {
namespace {

template <class T, int kHeadDim>
struct ForwardKernels {
  using C = Config<kHeadDim>;
  using Storage = SharedStorage<T, kHeadDim>;
  static constexpr std::size_t kSharedBytes = sizeof(Storage);

  static FlashAttentionError run(const ForwardParams& p, cudaStream_t stream) {
    ForwardMaps maps;
    const auto error = make_maps<typename Storage::QTile, typename Storage::KVTile>(maps, p, p);
    if (error != FlashAttentionError::SUCCESS) return error;
    return queue(stream, block_each_q_tile<Storage>(C::kBlockQ, C::kThreads, attention<T, kHeadDim>,
                                                    p, maps));
  }
};

Rank rank(const Problem& p) {
  if (p.head_dim < 96) return {90, "as fast as copies by the warps"};
  return {100, "copies take no instructions of the warps"};
}

constexpr Stage describe() {
  Stage stage;
  stage.name = "10_tma";
  stage.teaches = "TMA and mbarrier: one thread requests whole tiles";
  stage.removes = "the instructions that copy";
  stage.limiter = "the rate of mma.sync";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.forward.arch = {90};
  stage.forward.features = kEveryFeature.without(Feature::kAnyStride);
  stage.forward.tensor_cores = true;
  stage.forward.products = products<2>;
  stage.forward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::tma
