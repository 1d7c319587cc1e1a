// 17_persistent_backward: what the producer's warps do. One requests tiles; one for each consumer
// has TMA add to the sum of dQ.
#pragma once

#include "device/hopper.h"
#include "storage.cuh"

namespace cuflash::persistent_backward {

// A step's tile of queries, counted over all heads.
__device__ __forceinline__ std::int64_t tile_index(const BackwardParams& p,
                                                   const DqWorkspace& scratch, const Piece& piece,
                                                   const Step& at) {
  return (std::int64_t{piece.batch} * p.heads_q + at.head) * scratch.q_tiles + at.tile;
}

// Takes the next piece.
template <int kHeadDim>
__device__ __forceinline__ Piece take_piece(const BackwardParams& p, const DqWorkspace& scratch,
                                            const TileOrder& order, int lane) {
  int number = 0;
  if (lane == 0) number = static_cast<int>(atomicAdd(scratch.next, 1u));
  number = __shfl_sync(0xffffffffu, number, 0);
  return uniform(piece_of<kHeadDim>(p, order, number));
}

// Hands a block's nth piece on, and requests its K and V.
template <class T, int kHeadDim>
__device__ __forceinline__ void hand_on_piece(BackwardStorage<T, kHeadDim>& storage,
                                              const BackwardMaps& maps, const Piece& piece, int nth,
                                              int lane) {
  const auto [slot, phase] = slot_of<2>(nth);
  ptx::mbarrier_wait(&storage.k_empty[slot], phase ^ 1);  // All have read what was there.
  if (lane == 0) {
    storage.pieces[slot] = piece;
    ptx::mbarrier_arrive(&storage.k_full[slot]);
    if (piece.number < 0) {
      ptx::mbarrier_arrive(&storage.k_full[slot]);  // This arrival replaces the copy's.
    } else {
      request_tile(storage.sK[slot], maps.k, piece.j0, piece.kv_head, piece.batch,
                   storage.k_full[slot]);
    }
  }
  if (piece.number < 0) return;
  ptx::mbarrier_wait(&storage.v_empty, nth % 2 ^ 1);  // V, which has one buffer, has been read.
  if (lane == 0) {
    request_tile(storage.sV, maps.v, piece.j0, piece.kv_head, piece.batch, storage.v_full);
  }
}

// Produce: one warp takes pieces, and requests K and V, and all tiles of Q and dO, with their LSE
// and delta.
template <class T, int kHeadDim>
__device__ __forceinline__ void request_pieces(const BackwardParams& p, const DqWorkspace& scratch,
                                               const BackwardMaps& maps, const TileOrder& order,
                                               BackwardStorage<T, kHeadDim>& storage, int lane) {
  using C = BackwardConfig<kHeadDim>;
  auto &sQ = storage.sQ, &sdO = storage.sdO;
  auto &full = storage.full, &empty = storage.empty;
  Piece piece = take_piece<kHeadDim>(p, scratch, order, lane);
  int taken = 0;  // tiles of queries, over all pieces
#pragma unroll 1
  for (int nth = 0;; ++nth) {
    // A piece that no query sees, or that marks the end, is handed on at once.
    if (piece.num_steps == 0) hand_on_piece(storage, maps, piece, nth, lane);
    if (piece.number < 0) return;
    Step at(piece);
#pragma unroll 1
    for (int n = 0; n < piece.num_steps; ++n, at.advance()) {
      const auto [stage, phase] = slot_of<C::kStages>(taken++);
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
      // A piece with tiles is handed on after its first: V may have to wait, Q and dO need not.
      if (n == 0) hand_on_piece(storage, maps, piece, nth, lane);
    }
    piece = take_piece<kHeadDim>(p, scratch, order, lane);
  }
}

// Add: one thread has TMA add a consumer's share of each tile of dQ.
template <class T, int kHeadDim>
__device__ __forceinline__ void add_dq(const BackwardParams& p, const DqWorkspace& scratch,
                                       BackwardStorage<T, kHeadDim>& storage, int consumer) {
  using C = BackwardConfig<kHeadDim>;
  int tiles = 0;  // tiles of queries added so far, over all pieces
#pragma unroll 1
  for (int nth = 0;; ++nth) {
    const auto [slot, phase] = slot_of<2>(nth);
    ptx::mbarrier_wait(&storage.k_full[slot], phase);  // The piece is there.
    const Piece piece = storage.pieces[slot];
    if (piece.number < 0) return;
    ptx::mbarrier_arrive(&storage.k_empty[slot]);
    const Sequence seq = sequence(p, piece.batch);
    Step at(piece);
#pragma unroll 1
    for (int n = 0; n < piece.num_steps; ++n, at.advance()) {
      const std::int64_t share = C::kConsumers * tile_index(p, scratch, piece, at) + consumer;
      wait_to_add(scratch, share,
                  adds_before(seq, at.tile * C::kStreamed, C::kStreamed, piece.j0, C::kOwned));
      ptx::mbarrier_wait(&storage.dq_full[consumer], tiles++ % 2);  // The consumer has written dQ.
      add_to_dq(scratch, share, storage.sdQ[consumer]);
      ptx::mbarrier_arrive(&storage.dq_empty[consumer]);
      let_next_add(scratch, share);
    }
  }
}

}  // namespace cuflash::persistent_backward
