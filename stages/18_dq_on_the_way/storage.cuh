// 18_dq_on_the_way: a block's shared memory.
#pragma once

#include "pieces.cuh"

namespace cuflash::dq_on_the_way {

template <class T, int kHeadDim>
struct BackwardStorage {
  using C = BackwardConfig<kHeadDim>;
  using KVTile = SwizzledTile<T, C::kOwned, kHeadDim>;
  using QTile = SwizzledTile<T, C::kStreamed, kHeadDim>;
  using ScoreTile = SwizzledTile<T, C::kOwned, C::kStreamed>;
  KVTile sK[2];  // of two pieces: the last dQ of one is computed in the first tile of the next
  KVTile sV;
  QTile sQ[C::kStages], sdO[C::kStages];
  ScoreTile sdS[2];  // dSᵀ, of even and of odd tiles
  // What is to be added.
  alignas(128) float sdQ[C::kConsumers][C::Dq::kFloats / C::kConsumers];
  alignas(16) float s_lse[C::kStages][C::kStreamed], s_delta[C::kStages][C::kStreamed];
  Piece pieces[2];
  // A piece and its K have arrived; the consumers have read both, the producer's other warps the
  // piece.
  std::uint64_t k_full[2], k_empty[2];
  std::uint64_t v_full, v_empty;                      // V has arrived; the consumers have read it
  std::uint64_t full[C::kStages], empty[C::kStages];  // the same for a tile of Q and dO
  std::uint64_t ds_full;  // dS of a tile is written, and dQ of the previous tile is there
  // A consumer has written sdQ; TMA has read it.
  std::uint64_t dq_full[C::kConsumers], dq_empty[C::kConsumers];
};

template <class T, int kHeadDim>
__device__ __forceinline__ void begin_barriers(BackwardStorage<T, kHeadDim>& storage) {
  using C = BackwardConfig<kHeadDim>;
#pragma unroll
  for (int slot = 0; slot < 2; ++slot) {
    ptx::mbarrier_init(&storage.k_full[slot], 2);  // the copy, and the thread that wrote the piece
    // The producer's other warps read the piece, too.
    ptx::mbarrier_init(&storage.k_empty[slot], C::kWarps + kWarpgroupWarps - 1);
  }
#pragma unroll
  for (int stage = 0; stage < C::kStages; ++stage) {
    // Two copies, and a warp that copies rows itself.
    ptx::mbarrier_init(&storage.full[stage], 2 + 32);
    ptx::mbarrier_init(&storage.empty[stage], C::kWarps);
  }
  ptx::mbarrier_init(&storage.v_full, 1);
  ptx::mbarrier_init(&storage.v_empty, C::kWarps);
  ptx::mbarrier_init(&storage.ds_full, C::kWarps);
#pragma unroll
  for (int consumer = 0; consumer < C::kConsumers; ++consumer) {
    ptx::mbarrier_init(&storage.dq_full[consumer], kWarpgroupWarps);
    ptx::mbarrier_init(&storage.dq_empty[consumer], 1);
  }
  ptx::fence_mbarrier_init();
}

// A kernel's parameter, __grid_constant__.
struct BackwardMaps {
  TileMap q, k, v, d_o;
};

}  // namespace cuflash::dq_on_the_way
