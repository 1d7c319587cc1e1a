// 05_wmma: what the stage can do, and the host code that launches its kernel.
#include <algorithm>

#include "cuflash/stage.h"
#include "device/launch.h"
#include "device/types.h"
#include "kernel.cuh"

namespace cuflash::wmma {
namespace {

using Types = TypeList<__half, __nv_bfloat16>;
using Dims = IntList<32, 64, 128>;

constexpr std::size_t kSharedBytes =
    std::max(sizeof(SharedStorage<__half, 64>), sizeof(SharedStorage<__half, 128>));
static_assert(kSharedBytes <= kSharedBytesOfSm75,
              "a block of 05 fits every device it is built for");

Tile tile(Pass, const Problem& p) {
  Tile tile;
  (void)dispatch(Types{}, Dims{}, p, [&](auto, auto head_dim) {
    using C = Config<head_dim()>;
    tile = {C::kBlockQ, C::kBlockKV};
    return FlashAttentionError::SUCCESS;
  });
  return tile;
}

std::size_t workspace_bytes(Pass, const Problem&) { return 0; }

template <class T, int kHeadDim>
FlashAttentionError run_forward(const ForwardParams& p, cudaStream_t stream) {
  using C = Config<kHeadDim>;
  const std::int64_t blocks = num_blocks(p.batch, p.heads_q, p.seq_q, C::kBlockQ);
  if (blocks > max_count(1)) return FlashAttentionError::SIZE_OVERFLOW;
  constexpr auto kShared = shared_layout<SharedStorage<T, kHeadDim>>();
  return launch(attention<T, kHeadDim>, {grid_for(blocks, 1), C::kThreads, kShared, stream}, p);
}

FlashAttentionError forward(const Problem& p, const Forward& args, cudaStream_t stream) {
  return dispatch(Types{}, Dims{}, p, [&](auto type, auto head_dim) {
    return run_forward<typename decltype(type)::Type, head_dim()>({p, args}, stream);
  });
}

}  // namespace

extern const Stage kStage;
const Stage kStage = {
    "05_wmma",
    "both products on the tensor cores, through nvcuda::wmma",
    "single multiply-adds",
    "shared memory: S, P and the operands' fragments pass through it",
    {75, false, 80},
    Types::kSet,
    Dims::kSet,
    kSharedBytes,
    true,
    tile,
    workspace_bytes,
    forward,
    nullptr,
};

}  // namespace cuflash::wmma
