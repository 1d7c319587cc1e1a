// 18_dq_on_the_way: what the stage can do, and the host code that launches its kernels.
#include "device/host/grid.h"
#include "device/host/pass.h"
#include "device/host/resident_grid.h"
#include "device/host/tile_map.h"
#include "kernel_bwd.cuh"

namespace cuflash::dq_on_the_way {
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

  static FlashAttentionError run(const BackwardParams& p, const Device& device,
                                 cudaStream_t stream) {
    BackwardMaps maps;
    if (!make_maps(maps, p)) return FlashAttentionError::CUDA_ERROR;
    const std::int64_t pieces = std::int64_t{p.batch} * p.heads_kv * num_tiles(p.seq_kv, C::kOwned);
    const std::int64_t blocks = num_resident_blocks(pieces, device);
    // Each block takes one number more than it gets pieces. An int must hold them all.
    if (pieces > kMaxBlocks - blocks) return FlashAttentionError::SIZE_OVERFLOW;
    const Schedule schedule = make_schedule<C>(p, blocks);
    const DqWorkspace scratch = workspace<Dq>(p, schedule);
    constexpr int kDeltaThreads = 256, kRoundThreads = 256;
    const std::int64_t lanes = scratch.all_tiles * C::kStreamed * kDeltaLanes<kHeadDim>;
    // The last kernel rounds the slices of the last `lag` pieces.
    const int first = schedule.first_slice(schedule.order.size() - schedule.lag);
    const std::int64_t left = scratch.all_tiles * Dq::kWarps - first;
    return queue(
        stream, one_thread_per(lanes, kDeltaThreads, row_delta<T, Dq>, p, scratch),
        resident_grid<Storage>(blocks, C::kThreads, gradients<T, kHeadDim>, p, scratch, maps,
                               schedule),
        one_thread_per(32 * left, kRoundThreads, query_gradient<T, Dq>, p, scratch, first));
  }
};

std::size_t backward_workspace(const Problem& p) {
  return dispatch(TensorCoreTypes{}, UsualHeadDims{}, p, std::size_t{0}, [&](auto, auto head_dim) {
    // Each group has two counts. There are at most as many groups as KV heads.
    const std::size_t groups = std::size_t{1} * p.batch * p.heads_kv;
    using Dq = typename BackwardConfig<head_dim()>::Dq;
    return dq_workspace_bytes<Dq, 0>(p, 2 * groups);
  });
}

Rank rank(const Problem&) { return {180, "persistent blocks that also zero and round dQ"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "18_dq_on_the_way";
  stage.teaches = "dQ zeroed and rounded by the main kernel itself";
  stage.removes = "most of the work before and after the main kernel";
  stage.limiter = "waits: no unit is busy all the time";
  stage.backward = backward_pass<BackwardKernels, TensorCoreTypes, UsualHeadDims>();
  stage.backward.follows = "17_persistent_backward";
  stage.backward.arch = {90, true};
  stage.backward.features = kDenseFeatures.without(Feature::kDeterministic)
                                .without(Feature::kAnyStride)
                                .without(Feature::kNullGradients);
  stage.backward.products_by = ProductsBy::kWgmma;
  stage.backward.products = products<5>;
  stage.backward.any_order = true;
  stage.backward.resident = true;
  stage.backward.workspace_bytes = backward_workspace;
  stage.backward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::dq_on_the_way
