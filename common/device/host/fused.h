// The host code of a fused pass with the usual grids: a kernel with one block per tile of queries
// and, in the backward pass, a second kernel with one block per tile of keys.
#ifndef CUFLASH_DEVICE_HOST_FUSED_H_
#define CUFLASH_DEVICE_HOST_FUSED_H_

#include <algorithm>

#include "device/host/grid.h"
#include "device/tensor.h"

namespace cuflash {

// One kernel, kAttention(p). Config has kBlockQ and kThreads.
template <class Config, class Storage, auto kAttention>
struct FusedForward {
  static constexpr std::size_t kSharedBytes = sizeof(Storage);

  static FlashAttentionError run(const ForwardParams& p, cudaStream_t stream) {
    return queue(stream,
                 one_block_per_q_tile<Storage>(Config::kBlockQ, Config::kThreads, kAttention, p));
  }
};

// Two kernels: kQueryGradient(p, delta) writes dQ and delta, which fills the workspace;
// kKeyValueGradient(p, delta) reads delta and writes dK and dV. Config has kOwned and kThreads.
template <class Config, class QueryStorage, auto kQueryGradient, class KeyValueStorage,
          auto kKeyValueGradient>
struct FusedBackward {
  static constexpr std::size_t kSharedBytes =
      std::max(sizeof(QueryStorage), sizeof(KeyValueStorage));

  static FlashAttentionError run(const BackwardParams& p, cudaStream_t stream) {
    using C = Config;
    const auto delta = static_cast<float*>(p.workspace);
    return queue(
        stream,
        one_block_per_q_tile<QueryStorage>(C::kOwned, C::kThreads, kQueryGradient, p, delta),
        one_block_per_kv_tile<KeyValueStorage>(C::kOwned, C::kThreads, kKeyValueGradient, p, delta)
            .only_if(p.dk.data != nullptr || p.dv.data != nullptr));
  }
};

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_HOST_FUSED_H_
