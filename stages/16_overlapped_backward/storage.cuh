// 16_overlapped_backward: a block's shared memory.
#pragma once

#include "pieces.cuh"

namespace cuflash::overlapped_backward {

template <class T, int kHeadDim>
struct BackwardStorage {
  using C = BackwardConfig<kHeadDim>;
  using KVTile = SwizzledTile<T, C::kOwned, kHeadDim>;
  using QTile = SwizzledTile<T, C::kStreamed, kHeadDim>;
  using ScoreTile = SwizzledTile<T, C::kOwned, C::kStreamed>;
  KVTile sK, sV;  // at the end, dK and dV
  QTile sQ[C::kStages], sdO[C::kStages];
  ScoreTile sdS[2];                        // dSᵀ, of even and of odd tiles
  alignas(128) float sdQ[C::Dq::kFloats];  // the terms to be added
  alignas(16) float s_lse[C::kStages][C::kStreamed], s_delta[C::kStages][C::kStreamed];
  std::uint64_t kv_full;                              // K and V have arrived
  std::uint64_t full[C::kStages], empty[C::kStages];  // a tile has arrived; consumers have read it
  std::uint64_t ds_full;            // dS of a tile is written, and dQ of the previous tile is there
  std::uint64_t dq_full, dq_empty;  // sdQ has been written; TMA has read it
  unsigned block;                   // this block's number
};

// A kernel's parameter, __grid_constant__.
struct BackwardMaps {
  TileMap q, k, v, d_o;
};

}  // namespace cuflash::overlapped_backward
