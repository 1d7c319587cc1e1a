// 09_async_copy: what the stage can do, and the host code that launches its kernels.
#include <algorithm>

#include "device/host/fused.h"
#include "device/host/pass.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::async_copy {
namespace {

template <class T, int kHeadDim>
using ForwardKernels =
    FusedForward<Config<kHeadDim>, SharedStorage<T, kHeadDim>, attention<T, kHeadDim>>;
static_assert(largest_block<ForwardKernels>(TensorCoreTypes{}, EveryHeadDim{}) <=
                  kSharedBytesOfSm86,
              "99 KB hold the largest block");

template <class T, int kHeadDim>
struct BackwardKernels {
  using C = BackwardConfig<kHeadDim>;
  using Storage = BackwardStorage<T, kHeadDim>;
  static constexpr std::size_t kSharedBytes = sizeof(Storage);

  template <Gradients kGradients>
  static auto grid(const BackwardParams& p, const Workspace& work) {
    const std::int64_t blocks = std::int64_t{p.batch} * p.heads_kv * work.splits;
    return Grid<decltype(&gradients<T, kHeadDim, kGradients>), BackwardParams, Workspace>{
        gradients<T, kHeadDim, kGradients>,
        blocks,
        C::kThreads,
        shared_layout<Storage>(),
        {p, work}};
  }

  static FlashAttentionError run(const BackwardParams& p, cudaStream_t stream) {
    const Workspace work = workspace<kHeadDim>(p);
    constexpr int kDeltaThreads = 256;
    const std::int64_t lanes = work.all_tiles * C::kStreamed * kDeltaLanes<kHeadDim>;
    const bool dq = p.dq.data != nullptr, dk = p.dk.data != nullptr, dv = p.dv.data != nullptr;
    const auto before = one_thread_per(lanes, kDeltaThreads, row_delta<T, kHeadDim>, p, work);
    const auto after = one_block_per_q_tile<QueryGradientStorage<T, kHeadDim>>(
                           C::kStreamed, C::kThreads, query_gradient<T, kHeadDim>, p, work)
                           .only_if(dq);
    if constexpr (C::kApart) {
      return queue(stream, before, grid<Gradients::kOnlyValue>(p, work).only_if(dv),
                   grid<Gradients::kNotValue>(p, work).only_if(dq || dk), after);
    } else {
      const bool all = dq && dk && dv;
      return queue(stream, before, grid<Gradients::kAll>(p, work).only_if(all),
                   grid<Gradients::kGiven>(p, work).only_if(!all), after);
    }
  }
};

std::size_t backward_workspace(const Problem& p) {
  return dispatch(TensorCoreTypes{}, EveryHeadDim{}, p, std::size_t{0},
                  [&](auto, auto head_dim) { return workspace_bytes<head_dim()>(p); });
}

// With head_dim 256 two kernels compute S.
int backward_products(const Problem& p) {
  return dispatch(TensorCoreTypes{}, EveryHeadDim{}, p, 0,
                  [](auto, auto head_dim) { return BackwardConfig<head_dim()>::kApart ? 6 : 5; });
}

Rank rank(const Problem&) { return {90, "copies run beside the products of mma.sync"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "09_async_copy";
  stage.teaches = "cp.async: tiles arrive while the warps compute";
  stage.removes = "waiting for loads";
  stage.limiter = "the rate of mma.sync; in the backward pass also shared memory";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.forward.follows = "08_swizzle";
  stage.forward.arch = {80};
  stage.forward.features = kDenseFeatures;
  stage.forward.products_by = ProductsBy::kMma;
  stage.forward.products = products<2>;
  stage.forward.rank = rank;
  stage.backward = backward_pass<BackwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.backward.follows = "06_forward_backward";
  stage.backward.arch = {80};
  stage.backward.features = kDenseFeatures;
  stage.backward.products_by = ProductsBy::kMma;
  stage.backward.products = backward_products;
  stage.backward.any_order = true;
  stage.backward.workspace_bytes = backward_workspace;
  stage.backward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::async_copy
