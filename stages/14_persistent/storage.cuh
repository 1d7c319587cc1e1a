// 14_persistent: the shared memory of a block, with its barriers.
#pragma once

#include "device/hopper.h"
#include "shape.cuh"
#include "work.cuh"

namespace cuflash::persistent {

template <class T, int kHeadDim>
struct SharedStorage {
  using C = Config<kHeadDim>;
  using QTile = SwizzledTile<T, C::kBlockQ, kHeadDim>;
  using KVTile = SwizzledTile<T, C::kBlockKV, kHeadDim>;
  QTile sQ[C::kQStages];  // Q, and in the end O
  KVTile sK[C::kStages], sV[C::kStages];
  Work<C> work[C::kQStages];                             // what to compute with this Q
  std::uint64_t q_full[C::kQStages];                     // Q has arrived, and its Work is written
  std::uint64_t k_full[C::kStages], v_full[C::kStages];  // a copy has arrived
  std::uint64_t o_full[C::kQStages][C::kConsumers];      // a consumer has written its O
  std::uint64_t q_empty[C::kQStages];  // all consumers' O has been read: sQ and work are free
  std::uint64_t k_empty[C::kStages], v_empty[C::kStages];  // no consumer needs it any more
};

// Begins the barriers. One thread calls it, before a __syncthreads().
template <class T, int kHeadDim>
__device__ __forceinline__ void begin_barriers(SharedStorage<T, kHeadDim>& storage) {
  using C = Config<kHeadDim>;
#pragma unroll
  for (int q = 0; q < C::kQStages; ++q) {
    ptx::mbarrier_init(&storage.q_full[q], 1);
    ptx::mbarrier_init(&storage.q_empty[q], C::kConsumers);
#pragma unroll
    for (auto& o_full : storage.o_full[q]) ptx::mbarrier_init(&o_full, kWarpgroupWarps);
  }
#pragma unroll
  for (int stage = 0; stage < C::kStages; ++stage) {
    ptx::mbarrier_init(&storage.k_full[stage], 1);
    ptx::mbarrier_init(&storage.v_full[stage], 1);
    ptx::mbarrier_init(&storage.k_empty[stage], C::kConsumers * kWarpgroupWarps);
    ptx::mbarrier_init(&storage.v_empty[stage], C::kConsumers * kWarpgroupWarps);
  }
  ptx::fence_mbarrier_init();
}

// The tensor maps, a kernel's parameter.
struct Maps : ForwardMaps {
  TileMap o;  // boxes of a consumer's rows
};

}  // namespace cuflash::persistent
