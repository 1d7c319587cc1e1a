// 03_online_softmax: what the stage can do, and the host code that launches its kernels.
#include <algorithm>

#include "cuflash/stage.h"
#include "device/launch.h"
#include "device/types.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::online_softmax {
namespace {

using Types = TypeList<float, __half, __nv_bfloat16>;
using Dims = IntList<32, 64, 128>;

constexpr std::size_t kSharedBytes =
    std::max({sizeof(SharedStorage<float, 128>), sizeof(QueryStorage<float, 128>),
              sizeof(KeyValueStorage<float, 128>)});
static_assert(kSharedBytes <= kSharedBytesOfSm75,
              "a block of 03 fits every device it is built for");

std::int64_t num_rows(const Problem& p) { return std::int64_t{p.batch} * p.heads_q * p.seq_q; }

Tile tile(Pass pass, const Problem& p) {
  Tile tile = {Config<float>::kBlockQ, Config<float>::kBlockKV};
  if (pass == CUFLASH_FORWARD) return tile;
  (void)dispatch(Types{}, Dims{}, p, [&](auto type, auto head_dim) {
    using C = BackwardConfig<typename decltype(type)::Type, head_dim()>;
    tile = {C::kOwned, C::kStreamed};
    return FlashAttentionError::SUCCESS;
  });
  return tile;
}

// Forward: nothing. Backward: delta.
std::size_t workspace_bytes(Pass pass, const Problem& p) {
  return pass == CUFLASH_FORWARD ? 0 : static_cast<std::size_t>(num_rows(p)) * sizeof(float);
}

template <class T, int kHeadDim>
FlashAttentionError run_forward(const ForwardParams& p, cudaStream_t stream) {
  using C = Config<T>;
  const std::int64_t blocks = num_blocks(p.batch, p.heads_q, p.seq_q, C::kBlockQ);
  if (blocks > max_count(1)) return FlashAttentionError::SIZE_OVERFLOW;
  constexpr auto kShared = shared_layout<SharedStorage<T, kHeadDim>>();
  return launch(attention<T, kHeadDim>, {grid_for(blocks, 1), C::kThreads, kShared, stream}, p);
}

template <class T, int kHeadDim>
FlashAttentionError run_backward(const BackwardParams& p, cudaStream_t stream) {
  using C = BackwardConfig<T, kHeadDim>;
  const auto delta = static_cast<float*>(p.workspace);
  const std::int64_t q_blocks = num_blocks(p.batch, p.heads_q, p.seq_q, C::kOwned);
  const std::int64_t kv_blocks = num_blocks(p.batch, p.heads_kv, p.seq_kv, C::kOwned);
  if (std::max(q_blocks, kv_blocks) > max_count(1)) return FlashAttentionError::SIZE_OVERFLOW;

  constexpr auto kQuery = shared_layout<QueryStorage<T, kHeadDim>>();
  const auto error = launch(query_gradient<T, kHeadDim>,
                            {grid_for(q_blocks, 1), C::kThreads, kQuery, stream}, p, delta);
  if (error != FlashAttentionError::SUCCESS) return error;
  if (p.dk.data == nullptr && p.dv.data == nullptr) return error;
  constexpr auto kKeyValue = shared_layout<KeyValueStorage<T, kHeadDim>>();
  return launch(key_value_gradient<T, kHeadDim>,
                {grid_for(kv_blocks, 1), C::kThreads, kKeyValue, stream}, p, delta);
}

FlashAttentionError forward(const Problem& p, const Forward& args, cudaStream_t stream) {
  return dispatch(Types{}, Dims{}, p, [&](auto type, auto head_dim) {
    return run_forward<typename decltype(type)::Type, head_dim()>({p, args}, stream);
  });
}

FlashAttentionError backward(const Problem& p, const Backward& args, cudaStream_t stream) {
  return dispatch(Types{}, Dims{}, p, [&](auto type, auto head_dim) {
    return run_backward<typename decltype(type)::Type, head_dim()>({p, args}, stream);
  });
}

}  // namespace

extern const Stage kStage;
const Stage kStage = {
    "03_online_softmax",
    "one fused kernel: running maximum and sum; S and P stay on the chip",
    "writing and reading S and P in global memory",
    "issue slots: conversions and shared loads outnumber multiply-adds",
    {75, false},
    Types::kSet,
    Dims::kSet,
    kSharedBytes,
    true,
    tile,
    workspace_bytes,
    forward,
    backward,
};

}  // namespace cuflash::online_softmax
