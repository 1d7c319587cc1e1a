// 16_overlapped_backward: what the producer's warps do. One requests tiles; one has TMA add to
// the sum of dQ.
#pragma once

#include "device/hopper.h"
#include "storage.cuh"

namespace cuflash::overlapped_backward {

// A step's tile of queries, counted over all heads.
__device__ __forceinline__ std::int64_t tile_index(const BackwardParams& p,
                                                   const DqWorkspace& scratch, const Piece& piece,
                                                   const Step& at) {
  return (std::int64_t{piece.batch} * p.heads_q + at.head) * scratch.q_tiles + at.tile;
}

// Produce: one warp requests K and V, and all tiles of Q and dO, with their LSE and delta.
template <class T, int kHeadDim>
__device__ __forceinline__ void request_tiles(const BackwardParams& p, const DqWorkspace& scratch,
                                              const BackwardMaps& maps, const Piece& piece,
                                              BackwardStorage<T, kHeadDim>& storage, int lane) {
  using C = BackwardConfig<kHeadDim>;
  auto &sQ = storage.sQ, &sdO = storage.sdO;
  auto &full = storage.full, &empty = storage.empty;
  if (lane == 0) {
    request_tile(storage.sK, maps.k, piece.j0, piece.kv_head, piece.batch, storage.kv_full);
    request_tile(storage.sV, maps.v, piece.j0, piece.kv_head, piece.batch, storage.kv_full);
  }
  Step at(piece);
#pragma unroll 1
  for (int n = 0; n < piece.num_steps; ++n, at.advance()) {
    const auto [stage, phase] = slot_of<C::kStages>(n);
    ptx::mbarrier_wait(&empty[stage], phase ^ 1);  // The consumers have read what was there.
    if (lane == 0) {
      const int i0 = at.tile * C::kStreamed;
      request_tile(sQ[stage], maps.q, i0, at.head, piece.batch, full[stage]);
      request_tile(sdO[stage], maps.d_o, i0, at.head, piece.batch, full[stage]);
    }
    const std::int64_t row = tile_index(p, scratch, piece, at) * C::kStreamed;
#pragma unroll
    for (int r = 4 * lane; r < C::kStreamed; r += 128) {
      *reinterpret_cast<float4*>(&storage.s_lse[stage][r]) =
          *reinterpret_cast<const float4*>(&scratch.lse[row + r]);
      *reinterpret_cast<float4*>(&storage.s_delta[stage][r]) =
          *reinterpret_cast<const float4*>(&scratch.delta[row + r]);
    }
    ptx::mbarrier_arrive(&full[stage]);
  }
}

// Add: one thread has TMA add each tile of dQ.
template <class T, int kHeadDim>
__device__ __forceinline__ void add_dq(const BackwardParams& p, const DqWorkspace& scratch,
                                       const Piece& piece, BackwardStorage<T, kHeadDim>& storage) {
  using C = BackwardConfig<kHeadDim>;
  const Sequence seq = sequence(p, piece.batch);
  Step at(piece);
#pragma unroll 1
  for (int n = 0; n < piece.num_steps; ++n, at.advance()) {
    const std::int64_t tile = tile_index(p, scratch, piece, at);
    wait_to_add(scratch, tile,
                adds_before(seq, at.tile * C::kStreamed, C::kStreamed, piece.j0, C::kOwned));
    ptx::mbarrier_wait(&storage.dq_full, n % 2);  // The consumers have written sdQ.
    add_to_dq(scratch, tile, storage.sdQ);
    ptx::mbarrier_arrive(&storage.dq_empty);
    let_next_add(scratch, tile);
  }
}

}  // namespace cuflash::overlapped_backward
