// 03_online_softmax: what the stage can do, and the host code that launches its kernels.
#include "cuflash/stage.h"
#include "device/launch.h"
#include "device/types.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::online_softmax {
namespace {

using Types = TypeList<float, __half, __nv_bfloat16>;
using Dims = IntList<32, 64, 128>;

constexpr std::size_t kSharedBytes = sizeof(KeyValueStorage<float, 128>);  // the largest
static_assert(kSharedBytes <= kSharedBytesOfSm75,
              "a block of 03 fits every device it is built for");
static_assert(kSharedBytes >= sizeof(SharedStorage<float, 128>), "kSharedBytes is the largest");

std::int64_t num_rows(const Problem& p) { return std::int64_t{p.batch} * p.heads_q * p.seq_q; }

Tile tile(Pass pass, const Problem& p) {
  Tile tile = {Config<float>::kBlockQ, Config<float>::kBlockKV};
  if (pass == Pass::kForward) return tile;
  (void)dispatch(Types{}, Dims{}, p, [&](auto type, auto head_dim) {
    using C = BackwardConfig<typename decltype(type)::Type, head_dim()>;
    tile = {C::kOwned, C::kStreamed};
    return FlashAttentionError::SUCCESS;
  });
  return tile;
}

// Forward: nothing. Backward: delta.
std::size_t workspace_bytes(Pass pass, const Problem& p) {
  return pass == Pass::kForward ? 0 : static_cast<std::size_t>(num_rows(p)) * sizeof(float);
}

// Queues a kernel with a block for each tile of `tile` of the `seq` rows of each head.
template <class Storage, class Kernel, class... Args>
FlashAttentionError launch_tiles(Kernel kernel, int threads, int batch, int heads, int seq,
                                 int tile, cudaStream_t stream, const Args&... args) {
  const std::int64_t blocks = std::int64_t{batch} * heads * num_tiles(seq, tile);
  if (blocks > max_count(1)) return FlashAttentionError::SIZE_OVERFLOW;
  return launch(kernel, {grid_for(blocks, 1), threads, shared_layout<Storage>(), stream}, args...);
}

template <class T, int kHeadDim>
FlashAttentionError run_forward(const ForwardParams& p, cudaStream_t stream) {
  using C = Config<T>;
  return launch_tiles<SharedStorage<T, kHeadDim>>(attention<T, kHeadDim>, C::kThreads, p.batch,
                                                  p.heads_q, p.seq_q, C::kBlockQ, stream, p);
}

template <class T, int kHeadDim>
FlashAttentionError run_backward(const BackwardParams& p, cudaStream_t stream) {
  using C = BackwardConfig<T, kHeadDim>;
  const auto delta = static_cast<float*>(p.workspace);
  auto error =
      launch_tiles<QueryStorage<T, kHeadDim>>(query_gradient<T, kHeadDim>, C::kThreads, p.batch,
                                              p.heads_q, p.seq_q, C::kOwned, stream, p, delta);
  if (error != FlashAttentionError::SUCCESS) return error;
  if (p.dk.data == nullptr && p.dv.data == nullptr) return error;
  return launch_tiles<KeyValueStorage<T, kHeadDim>>(key_value_gradient<T, kHeadDim>, C::kThreads,
                                                    p.batch, p.heads_kv, p.seq_kv, C::kOwned,
                                                    stream, p, delta);
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
    "issue slots: for each multiply-add a conversion and a shared load",
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
