// 18_dq_on_the_way: what the producer's four warps do. One requests tiles; the others add to
// the sum of dQ, write its zeros and round it.
#pragma once

#include "dq_rounding.cuh"
#include "storage.cuh"

namespace cuflash::dq_on_the_way {

// A step's tile of queries, counted over all heads.
__device__ __forceinline__ std::int64_t tile_index(const BackwardParams& p,
                                                   const DqWorkspace& scratch, const Piece& piece,
                                                   const Step& at) {
  return (std::int64_t{piece.batch} * p.heads_q + at.head) * scratch.q_tiles + at.tile;
}

// Takes the next piece.
template <int kHeadDim>
__device__ __forceinline__ Piece take_piece(const BackwardParams& p, const DqWorkspace& scratch,
                                            const Schedule& schedule, int lane) {
  int number = 0;
  if (lane == 0) number = static_cast<int>(atomicAdd(scratch.next, 1u));
  number = __shfl_sync(0xffffffffu, number, 0);
  return uniform(piece_of<kHeadDim>(p, schedule.order, number));
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
                                               const BackwardMaps& maps, const Schedule& schedule,
                                               BackwardStorage<T, kHeadDim>& storage, int lane) {
  using C = BackwardConfig<kHeadDim>;
  auto &sQ = storage.sQ, &sdO = storage.sdO;
  auto &full = storage.full, &empty = storage.empty;
  Piece piece = take_piece<kHeadDim>(p, scratch, schedule, lane);
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
    piece = take_piece<kHeadDim>(p, scratch, schedule, lane);
  }
}

// The nth piece of this block, for the producer's other warps. Each arrives at k_empty when it has
// read one, so that the producer may go on.
template <class Storage>
__device__ __forceinline__ Piece next_piece(Storage& storage, int nth) {
  const auto [slot, phase] = slot_of<2>(nth);
  ptx::mbarrier_wait(&storage.k_full[slot], phase);  // The piece is there.
  return storage.pieces[slot];
}

// Add: one thread has TMA add both consumers' shares of each tile of dQ.
template <class T, int kHeadDim>
__device__ __forceinline__ void add_dq(const BackwardParams& p, const DqWorkspace& scratch,
                                       const Schedule& schedule,
                                       BackwardStorage<T, kHeadDim>& storage) {
  using C = BackwardConfig<kHeadDim>;
  const GroupCounts counts = group_counts(scratch, schedule);
  int tiles = 0;  // tiles of queries added so far, over all pieces
#pragma unroll 1
  for (int nth = 0;; ++nth) {
    const Piece piece = next_piece(storage, nth);
    if (piece.number < 0) return;
    ptx::mbarrier_arrive(&storage.k_empty[slot_of<2>(nth).stage]);
    const int group = schedule.order.group_of(piece.number);
    // Wait for the zeros that blocks write: the piece may add to any slice of its group.
    if (schedule.zeroed_pieces(group) > 0) {
      ptx::block_count_wait(&counts.zeroed[group], kKeepers * schedule.zeroed_pieces(group));
      ptx::fence_proxy_async_global();  // TMA adds to zeros that threads have written.
    }
    Step at(piece);
#pragma unroll 1
    for (int n = 0; n < piece.num_steps; ++n, at.advance()) {
      const unsigned phase = tiles++ % 2;
#pragma unroll 1
      for (int consumer = 0; consumer < C::kConsumers; ++consumer) {
        const std::int64_t share = C::kConsumers * tile_index(p, scratch, piece, at) + consumer;
        ptx::mbarrier_wait(&storage.dq_full[consumer], phase);  // The consumer has written dQ.
        add_to_dq(scratch, share, storage.sdQ[consumer]);
        ptx::mbarrier_arrive(&storage.dq_empty[consumer]);
      }
    }
    ptx::tensor_store_wait<0>();  // The sums have been written before they are counted.
    ptx::block_count_add(&counts.added[group]);
  }
}

// Keep: a warp writes the zeros of a later piece's slices of dQ, and rounds those of an earlier
// one.
template <class T, int kHeadDim>
__device__ __forceinline__ void keep_dq(const BackwardParams& p, const DqWorkspace& scratch,
                                        const Schedule& schedule,
                                        BackwardStorage<T, kHeadDim>& storage, int keeper,
                                        int lane) {
  using Dq = typename BackwardConfig<kHeadDim>::Dq;
  const GroupCounts counts = group_counts(scratch, schedule);
#pragma unroll 1
  for (int nth = 0;; ++nth) {
    const int number = next_piece(storage, nth).number;
    __syncwarp();  // All lanes have read the piece.
    if (number < 0) return;
    if (lane == 0) ptx::mbarrier_arrive(&storage.k_empty[slot_of<2>(nth).stage]);
    const int later = number + schedule.lead, earlier = number - schedule.lag;
    if (later < schedule.order.size()) {
      zero_slices<Dq>(scratch, schedule.first_slice(later), schedule.first_slice(later + 1),
                      32 * keeper + lane, 32 * kKeepers);
      ptx::fence_proxy_async_global();  // TMA will see what this thread has written.
      __syncwarp();                     // All lanes have written and fenced.
      if (lane == 0) ptx::block_count_add(&counts.zeroed[schedule.order.group_of(later)]);
    }
    if (earlier >= 0) {
      const int group = schedule.order.group_of(earlier);
      // A reduction ends with an implicit proxy fence, and is counted when it has ended: threads
      // that have waited for the count need none to read the sums.
      if (lane == 0) ptx::block_count_wait(&counts.added[group], schedule.pieces(group));
      __syncwarp();  // All lanes may read the sums.
      const int end = schedule.first_slice(earlier + 1);
#pragma unroll 1
      for (int slice = schedule.first_slice(earlier) + keeper; slice < end; slice += kKeepers) {
        round_slice<T, Dq>(p, scratch, slice, lane);
      }
    }
  }
}

}  // namespace cuflash::dq_on_the_way
