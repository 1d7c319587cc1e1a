// 16_overlapped_backward: a block's shared memory, its work, and what the producer's warps do.
#pragma once

#include "device/hopper.h"
#include "shape.cuh"

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
  alignas(128) float sdQ[C::Dq::kFloats];  // what is to be added
  alignas(16) float s_lse[C::kStages][C::kStreamed], s_delta[C::kStages][C::kStreamed];
  std::uint64_t kv_full;                              // K and V have arrived
  std::uint64_t full[C::kStages], empty[C::kStages];  // a tile has arrived; consumers have read it
  std::uint64_t ds_full;  // both consumers have written dS of a tile, and have dQ of the one before
  std::uint64_t dq_full, dq_empty;  // sdQ has been written; TMA has read it
  unsigned block;                   // this block's number
};

// A kernel's parameter, __grid_constant__.
struct BackwardMaps {
  TileMap q, k, v, d_o;
};

// What a block computes: a tile of keys, and the tiles of queries that see some of its keys, in
// each head that shares the KV head.
struct Piece {
  int batch, kv_head, j0;
  int head;       // the first that shares the KV head
  Range tiles;    // of queries, in each head
  int num_steps;  // over the tiles of all these heads
};

template <int kHeadDim>
__device__ __forceinline__ Piece piece_of(const BackwardParams& p, unsigned block) {
  using C = BackwardConfig<kHeadDim>;
  const int tiles = num_tiles(p.seq_kv, C::kOwned);
  const int heads = p.heads_q / p.heads_kv;  // that share the KV head
  const Place place = uniform(unravel(block, p.heads_kv, tiles, 1));
  const int j0 = nth_tile(p, tiles, place.row) * C::kOwned;
  const Range queries = visible_queries(sequence(p, place.batch), j0, j0 + C::kOwned);
  const int first = queries.begin / C::kStreamed;
  const int end = queries.end > queries.begin ? (queries.end - 1) / C::kStreamed + 1 : first;
  return {place.batch, place.head, j0, place.head * heads, {first, end}, (end - first) * heads};
}

// A step of a block's walk over tiles of queries: those of one head after the other.
struct Step {
  Range tiles;  // of a head
  int head, tile;

  __device__ __forceinline__ explicit Step(const Piece& piece)
      : tiles(piece.tiles), head(piece.head), tile(tiles.begin) {}
  __device__ __forceinline__ void advance() {
    const bool last = tile + 1 == tiles.end;
    head += last;
    tile = last ? tiles.begin : tile + 1;
  }
};

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
