// 14_persistent: what the stage can do, and the host code that launches its kernel.
#include "device/host/pass.h"
#include "device/host/resident_grid.h"
#include "device/host/tile_map.h"
#include "kernel.cuh"

namespace cuflash::persistent {
namespace {

template <class T, int kHeadDim>
struct ForwardKernels {
  using C = Config<kHeadDim>;
  using Storage = SharedStorage<T, kHeadDim>;
  static constexpr std::size_t kSharedBytes = sizeof(Storage);

  static FlashAttentionError run(const ForwardParams& p, const Device& device,
                                 cudaStream_t stream) {
    const int tiles = num_tiles(p.seq_q, C::kBlockQ);
    const std::int64_t heads = std::int64_t{p.batch} * p.heads_q;
    const int blocks = static_cast<int>(num_resident_blocks(heads * tiles, device));
    // The rounds' numbers reach a little further than the last tile's.
    if (heads * tiles > kMaxBlocks - 2 * blocks) return FlashAttentionError::SIZE_OVERFLOW;
    // Within a narrow window nearly all tiles have one length.
    const bool last_are_longest =
        p.width != UINT_MAX && p.width >= static_cast<unsigned>(p.seq_kv) / 2;
    const TileRounds order = tile_rounds(static_cast<int>(heads), tiles, blocks, last_are_longest);
    Maps maps;
    const auto error = make_maps<typename Storage::QTile, typename Storage::KVTile>(maps, p, p);
    if (error != FlashAttentionError::SUCCESS) return error;
    using Rows = SwizzledTile<T, kWgmmaM, kHeadDim>;
    if (!make_map(maps.o, tile_map<Rows>(p.o, p.dtype, p.batch, p.heads_q, p.seq_q, p.head_dim))) {
      return FlashAttentionError::CUDA_ERROR;
    }
    return queue(stream, resident_grid<Storage>(blocks, C::kThreads, attention<T, kHeadDim>, p,
                                                maps, order));
  }
};

Rank rank(const Problem&) { return {140, "persistent blocks"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "14_persistent";
  stage.teaches = "persistent blocks that load the next Q ahead";
  stage.removes = "the start and the end of a block";
  stage.limiter = "the products; with D = 64, no single unit";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.forward.follows = "13_ping_pong";
  stage.forward.arch = {90, true};
  stage.forward.features = kDenseFeatures.without(Feature::kAnyStride);
  stage.forward.products_by = ProductsBy::kWgmma;
  stage.forward.products = products<2>;
  stage.forward.resident = true;
  stage.forward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::persistent
