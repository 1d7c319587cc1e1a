// 11_wgmma: what the stage can do, and the host code that launches its kernel.
#include "device/grid.h"
#include "device/pass.h"
#include "kernel.cuh"

namespace cuflash::wgmma {
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

Rank rank(const Problem&) { return {110, "products at the rate of wgmma"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "11_wgmma";
  stage.teaches = "wgmma: products of a warpgroup, from shared memory";
  stage.removes = "the rate of mma.sync";
  stage.limiter = "softmax between the products";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.forward.arch = {90, true};
  stage.forward.features = kEveryFeature.without(Feature::kAnyStride);
  stage.forward.tensor_cores = true;
  stage.forward.products = products<2>;
  stage.forward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::wgmma
