// The host code of a fused forward pass whose tiles TMA copies.
#ifndef CUFLASH_DEVICE_HOST_FUSED_WITH_MAPS_H_
#define CUFLASH_DEVICE_HOST_FUSED_WITH_MAPS_H_

#include "device/host/grid.h"
#include "device/host/tile_map.h"
#include "device/tensor.h"

namespace cuflash {

// One kernel, kAttention(p, maps), with maps made for each call. Config has kBlockQ and kThreads;
// Storage has QTile and KVTile.
template <class Config, class Storage, auto kAttention>
struct FusedForwardWithMaps {
  static constexpr std::size_t kSharedBytes = sizeof(Storage);

  static FlashAttentionError run(const ForwardParams& p, cudaStream_t stream) {
    ForwardMaps maps;
    const auto error = make_maps<typename Storage::QTile, typename Storage::KVTile>(maps, p, p);
    if (error != FlashAttentionError::SUCCESS) return error;
    return queue(stream, one_block_per_q_tile<Storage>(Config::kBlockQ, Config::kThreads,
                                                       kAttention, p, maps));
  }
};

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_HOST_FUSED_WITH_MAPS_H_
