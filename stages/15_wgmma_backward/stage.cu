// 15_wgmma_backward: what the stage can do, and the host code that launches its kernels.
#include "device/host/grid.h"
#include "device/host/pass.h"
#include "device/host/tile_map.h"
#include "kernel_bwd.cuh"

namespace cuflash::wgmma_backward {
namespace {

template <class T, int kHeadDim>
struct BackwardKernels {
  using C = BackwardConfig<kHeadDim>;
  using Dq = typename C::Dq;
  using Storage = BackwardStorage<T, kHeadDim>;
  static constexpr std::size_t kSharedBytes = sizeof(Storage);

  static bool make_maps(BackwardMaps& maps, const BackwardParams& p) {
    const auto of_queries = [&](TileMap& map, const Tensor& t) {
      return make_map(map, tile_map<typename Storage::QTile>(t, p.dtype, p.batch, p.heads_q,
                                                             p.seq_q, p.head_dim));
    };
    const auto of_keys = [&](TileMap& map, const Tensor& t) {
      return make_map(map, tile_map<typename Storage::KVTile>(t, p.dtype, p.batch, p.heads_kv,
                                                              p.seq_kv, p.head_dim));
    };
    return of_queries(maps.q, p.q) && of_keys(maps.k, p.k) && of_keys(maps.v, p.v) &&
           of_queries(maps.d_o, p.d_o);
  }

  static FlashAttentionError run(const BackwardParams& p, cudaStream_t stream) {
    BackwardMaps maps;
    if (!make_maps(maps, p)) return FlashAttentionError::CUDA_ERROR;
    const DqWorkspace scratch = dq_workspace<Dq>(p);
    constexpr int kDeltaThreads = 256;
    const std::int64_t lanes = scratch.all_tiles * C::kStreamed * kDeltaLanes<kHeadDim>;
    return queue(stream, one_thread_per(lanes, kDeltaThreads, row_delta<T, Dq>, p, scratch),
                 one_block_per_kv_tile<Storage>(C::kOwned, C::kThreads, gradients<T, kHeadDim>, p,
                                                scratch, maps),
                 one_block_per_q_tile<QueryGradientStorage<T, Dq>>(
                     C::kStreamed, 32 * Dq::kWarps, query_gradient<T, Dq>, p, scratch)
                     .only_if(p.dq.data != nullptr));
  }
};

std::size_t backward_workspace(const Problem& p) {
  return dispatch(TensorCoreTypes{}, EveryHeadDim{}, p, std::size_t{0}, [&](auto, auto head_dim) {
    return dq_workspace_bytes<typename BackwardConfig<head_dim()>::Dq>(p);
  });
}

Rank rank(const Problem&) { return {150, "the five products by wgmma"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "15_wgmma_backward";
  stage.teaches = "the backward pass by wgmma; TMA adds to dQ";
  stage.removes = "the rate of mma.sync";
  stage.limiter = "shared memory, and waits between the products";
  stage.backward = backward_pass<BackwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.backward.follows = "09_async_copy";
  stage.backward.arch = {90, true};
  stage.backward.features = kDenseFeatures.without(Feature::kAnyStride);
  stage.backward.products_by = ProductsBy::kWgmma;
  stage.backward.products = products<5>;
  stage.backward.any_order = true;
  stage.backward.workspace_bytes = backward_workspace;
  stage.backward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::wgmma_backward
