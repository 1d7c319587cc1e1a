// 21_paged_kv: what the stage can do, and the host code that launches its kernels.
#include <algorithm>

#include "device/host/pass.h"
#include "device/host/resident_grid.h"
#include "kernel.cuh"

namespace cuflash::paged_kv {
namespace {

template <class C>
std::int64_t num_slots(const Problem& p) {
  return num_parts(p) != 0 ? num_blocks<C>(p, 0) : 2 * num_blocks<C>(p, kMostBlocks);
}

// The workspace: O of all slots, then their numbers.
template <int kHeadDim>
std::int64_t floats_of_o(const Problem& p) {
  return num_slots<Config<kHeadDim>>(p) * kMmaM * kHeadDim;
}
std::size_t workspace(const Problem& p) {
  return dispatch(TensorCoreTypes{}, EveryHeadDim{}, p, std::size_t{0}, [&](auto, auto head_dim) {
    constexpr int kHeadDim = head_dim();
    if (num_parts(p) == 1) return std::size_t{0};
    return static_cast<std::size_t>(floats_of_o<kHeadDim>(p)) / kHeadDim *
           (kHeadDim * sizeof(float) + sizeof(float2));
  });
}

template <class T, int kHeadDim>
struct ForwardKernels {
  using C = Config<kHeadDim>;
  using Storage = SharedStorage<T, kHeadDim>;
  static constexpr std::size_t kSharedBytes = sizeof(Storage);

  static FlashAttentionError run(const ForwardParams& p, const Device& device,
                                 cudaStream_t stream) {
    if (std::max(all_row_tiles(p), num_blocks<C>(p, kMostBlocks)) > kMaxBlocks) {
      return FlashAttentionError::SIZE_OVERFLOW;
    }
    const Division division = make_division<C>(p, device.sms);
    const auto o = static_cast<float*>(p.workspace);
    const Partials partials = {o, reinterpret_cast<float2*>(o + floats_of_o<kHeadDim>(p))};
    return queue(stream,
                 resident_grid<Storage>(division.blocks, C::kThreads, attention<T, kHeadDim>, p,
                                        division, partials),
                 one_thread_per(32 * num_rows(p), kCombineThreads, combine<T, kHeadDim>, p,
                                division, partials)
                     .only_if(division.parts != 1 && division.blocks > 1));
  }
};
static_assert(largest_block<ForwardKernels>(TensorCoreTypes{}, EveryHeadDim{}) <=
                  kSharedBytesOfSm86,
              "99 KB hold the largest block");

Rank rank(const Problem&) { return {70, "K and V in pages"}; }

constexpr Stage describe() {
  Stage stage;
  stage.name = "21_paged_kv";
  stage.teaches = "K and V in pages, which a table names";
  stage.removes = "the memory that caches reserve and do not use";
  stage.limiter = "the bandwidth of memory";
  stage.forward = forward_pass<ForwardKernels, TensorCoreTypes, EveryHeadDim>();
  stage.forward.follows = "20_split_kv";
  stage.forward.arch = {80};
  stage.forward.features = kEveryFeature;
  stage.forward.products_by = ProductsBy::kMma;
  stage.forward.products = products<2>;
  stage.forward.resident = true;
  stage.forward.workspace_bytes = workspace;
  stage.forward.rank = rank;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::paged_kv
