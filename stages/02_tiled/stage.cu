// 02_tiled: what the stage can do, and the host code that launches its kernels.
#include <algorithm>

#include "cuflash/stage.h"
#include "device/launch.h"
#include "device/types.h"
#include "kernel.cuh"

namespace cuflash::tiled {
namespace {

using Types = TypeList<float, __half, __nv_bfloat16>;
using Dims = IntList<32, 64, 128>;

constexpr int kSoftmaxThreads = 256;
constexpr std::size_t kSharedBytes =
    std::max(sizeof(ScoresStorage<float, 128>), sizeof(OutputStorage<float, 128>));
static_assert(kSharedBytes <= kSharedBytesOfSm75,
              "a block of 02 fits every device it is built for");

std::int64_t num_rows(const Problem& p) { return std::int64_t{p.batch} * p.heads_q * p.seq_q; }

Tile tile(Pass, const Problem&) { return {Config<float>::kBlockQ, Config<float>::kBlockKV}; }

// S, which becomes P.
std::size_t workspace_bytes(Pass, const Problem& p) {
  return static_cast<std::size_t>(num_rows(p) * p.seq_kv) * sizeof(float);
}

template <class T, int kHeadDim>
FlashAttentionError run_forward(const ForwardParams& p, cudaStream_t stream) {
  using C = Config<T>;
  const auto S = static_cast<float*>(p.workspace);
  const std::int64_t blocks = num_blocks(p.batch, p.heads_q, p.seq_q, C::kBlockQ);
  if (blocks > max_count(1)) return FlashAttentionError::SIZE_OVERFLOW;
  const dim3 grid = grid_for(blocks, 1);

  constexpr auto kScores = shared_layout<ScoresStorage<T, kHeadDim>>();
  auto error = launch(scores<T, kHeadDim>, {grid, C::kThreads, kScores, stream}, p, S);
  if (error == FlashAttentionError::SUCCESS) {
    error = launch(softmax, {grid_for(num_rows(p), kSoftmaxThreads), kSoftmaxThreads, 0, stream}, p,
                   S, num_rows(p));
  }
  if (error == FlashAttentionError::SUCCESS) {
    constexpr auto kOutput = shared_layout<OutputStorage<T, kHeadDim>>();
    error = launch(output<T, kHeadDim>, {grid, C::kThreads, kOutput, stream}, p, S);
  }
  return error;
}

FlashAttentionError forward(const Problem& p, const Forward& args, cudaStream_t stream) {
  return dispatch(Types{}, Dims{}, p, [&](auto type, auto head_dim) {
    return run_forward<typename decltype(type)::Type, head_dim()>({p, args}, stream);
  });
}

}  // namespace

extern const Stage kStage;
const Stage kStage = {
    "02_tiled",
    "tiles in shared memory: a block loads K and V once for all its queries",
    "reading K and V again for every query",
    "an uncoalesced softmax; S and P go through global memory six times",
    {75, false},
    Types::kSet,
    Dims::kSet,
    kSharedBytes,
    true,
    tile,
    workspace_bytes,
    forward,
    nullptr,
};

}  // namespace cuflash::tiled
