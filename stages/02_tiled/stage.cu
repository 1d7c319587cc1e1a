// 02_tiled: what the stage can do, and the host code that launches its kernels.
#include <algorithm>

#include "device/host/grid.h"
#include "device/host/pass.h"
#include "kernel.cuh"

namespace cuflash::tiled {
namespace {

template <class T, int kHeadDim>
struct ForwardKernels {
  using Scores = ScoresStorage<T, kHeadDim>;
  using Output = OutputStorage<T, kHeadDim>;
  static constexpr std::size_t kSharedBytes = std::max(sizeof(Scores), sizeof(Output));

  static FlashAttentionError run(const ForwardParams& p, cudaStream_t stream) {
    using C = Config<T>;
    const auto S = static_cast<float*>(p.workspace);
    return queue(stream,
                 one_block_per_q_tile<Scores>(C::kBlockQ, C::kThreads, scores<T, kHeadDim>, p, S),
                 one_thread_per(num_rows(p), C::kThreads, softmax, p, S),
                 one_block_per_q_tile<Output>(C::kBlockQ, C::kThreads, output<T, kHeadDim>, p, S));
  }
};
static_assert(largest_block<ForwardKernels>(EveryType{}, UsualHeadDims{}) <= kSharedBytesOfSm75,
              "64 KB hold a kBlockQ of up to 88");

// S, which becomes P.
std::size_t workspace_bytes(const Problem& p) {
  return static_cast<std::size_t>(num_rows(p) * p.seq_kv) * sizeof(float);
}

constexpr Stage describe() {
  Stage stage;
  stage.name = "02_tiled";
  stage.teaches = "tiles in shared memory: a block loads K and V once for all its queries";
  stage.removes = "reading K and V again for every query";
  stage.limiter = "an uncoalesced softmax; S and P go through global memory six times";
  stage.forward = forward_pass<ForwardKernels, EveryType, UsualHeadDims>();
  stage.forward.follows = "01_naive";
  stage.forward.features = kDenseFeatures;
  stage.forward.products = products<2>;
  stage.forward.keeps_scores = true;
  stage.forward.workspace_bytes = workspace_bytes;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::tiled
