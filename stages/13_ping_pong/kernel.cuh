// 13_ping_pong: two overlaps. Within a consumer, the softmax of a tile runs while the tensor cores
// add P V of the previous tile to O. Between consumers, for head dimensions where it pays, turns
// at issuing products (the ping-pong): one computes a softmax while another's products run.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/hopper.h"
#include "shape.cuh"
#include "softmax.cuh"

namespace cuflash::ping_pong {

template <class T, int kHeadDim>
struct SharedStorage {
  using C = Config<kHeadDim>;
  using QTile = SwizzledTile<T, C::kBlockQ, kHeadDim>;
  using KVTile = SwizzledTile<T, C::kBlockKV, kHeadDim>;
  QTile sQ;  // at the end, O
  KVTile sK[C::kStages], sV[C::kStages];
  std::uint64_t q_full;
  std::uint64_t k_full[C::kStages], v_full[C::kStages];    // a copy has arrived
  std::uint64_t k_empty[C::kStages], v_empty[C::kStages];  // all consumers have read it
};

// O = softmax(softmax_scale · Q Kᵀ) V. One block computes kBlockQ rows of O, one warpgroup 64 of
// them, a warp 16. Of these a lane holds parts of two rows, lane / 4 and lane / 4 + 8.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads, 1)
    attention(const __grid_constant__ ForwardParams p, const __grid_constant__ ForwardMaps maps) {
  using C = Config<kHeadDim>;
  using Storage = SharedStorage<T, kHeadDim>;
  constexpr int kKeySteps = C::kBlockKV / kWgmmaK;
  auto& storage = shared_storage<Storage>();
  auto& sQ = storage.sQ;
  auto &sK = storage.sK, &sV = storage.sV;
  auto &k_full = storage.k_full, &v_full = storage.v_full;
  auto &k_empty = storage.k_empty, &v_empty = storage.v_empty;

  // Find this block's head and queries, and this warp's role.
  const int thread = threadIdx.x, warp = uniform(thread / 32), warpgroup = warp / kWarpgroupWarps;
  const auto role = warpgroup == 0 ? WarpRole::kProducer : WarpRole::kConsumer;
  const int q_tiles = num_tiles(p.seq_q, C::kBlockQ);  // per head
  const Place place = place_of_block(p, q_tiles);
  const int b = place.batch, h = place.head, q_tile = place.row;
  const Sequence seq = sequence(p, b);
  const int i0 = first_query(seq.num_queries, C::kBlockQ, q_tiles, q_tile);  // [FA2 Alg.1 l.1-3]
  const int hk = uniform(kv_head(p, h));

  // Find the tiles of keys, and those of them that need no mask.
  const int begin = max(i0, 0), end = i0 + C::kBlockQ;
  const Range keys = visible_keys(seq, begin, end), full = keys_visible_to_all(seq, begin, end);
  const int first_tile = keys.begin / C::kBlockKV;
  const int num_tiles = keys.end > keys.begin ? (keys.end - 1) / C::kBlockKV + 1 : first_tile;
  const Range no_mask = {(full.begin + C::kBlockKV - 1) / C::kBlockKV, full.end / C::kBlockKV};

  // Initialise the barriers.
  if (thread == 0) {
    ptx::mbarrier_init(&storage.q_full, 1);
#pragma unroll
    for (int stage = 0; stage < C::kStages; ++stage) {
      ptx::mbarrier_init(&k_full[stage], 1);
      ptx::mbarrier_init(&v_full[stage], 1);
      ptx::mbarrier_init(&k_empty[stage], C::kConsumers * kWarpgroupWarps);
      ptx::mbarrier_init(&v_empty[stage], C::kConsumers * kWarpgroupWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();  // The barriers are initialised before a thread uses one.

  // Both roles walk from the last tile to the first.
  int tile = num_tiles - 1;
  const auto slot = [&](int of_tile) { return slot_of<C::kStages>(num_tiles - 1 - of_tile); };

  // Produce: one thread requests Q and all tiles.
  if (role == WarpRole::kProducer) {
    ptx::setmaxnreg_dec<C::kProducerRegisters>();
    if (thread != 0) return;
    request_tile(sQ, maps.q, i0, h, b, storage.q_full);
#pragma unroll 1
    for (; tile >= first_tile; --tile) {
      const auto [stage, phase] = slot(tile);
      ptx::mbarrier_wait(&k_empty[stage], phase ^ 1);  // The consumers have read what was there.
      request_tile(sK[stage], maps.k, tile * C::kBlockKV, hk, b, k_full[stage]);
      ptx::mbarrier_wait(&v_empty[stage], phase ^ 1);  // The consumers have read what was there.
      request_tile(sV[stage], maps.v, tile * C::kBlockKV, hk, b, v_full[stage]);
    }
    return;
  }

  // [FA2 Alg.1 l.4-7]  Q_i, K_j and V_j come from the producer; O = 0, l = 0, m = -inf
  ptx::setmaxnreg_inc<C::kConsumerRegisters>();
  const int consumer = warpgroup - 1, r0 = (warp - kWarpgroupWarps) * kMmaM;
  MmaAccumulator::Registers rO[kHeadDim / kMmaN] = {};
  // Before the head Q is zeros and all scores are 0. Rows there begin with that maximum: from -inf,
  // terms of the first tile without a mask would be too large, and computed again for nothing.
  const float no_max = i0 + r0 < 0 ? 0.f : -INFINITY;
  RowState row = {{no_max, no_max}, {}};
  const float scale_log2 = p.softmax_scale * kLog2e;

  MmaAccumulator::Registers rS[C::kBlockKV / kMmaN];  // the scores of a tile, and then its P in f32
  MmaA::Registers rP[kKeySteps];  // the same lanes hold the same elements of S and P

  // Consumer c waits for its turn at its own named barrier, where the previous consumer arrives.
  const auto wait_for_turn = [&] {
    if constexpr (C::kShape.turns) {
      ptx::named_barrier_sync(C::kTurn + consumer, 2 * kWarpgroupThreads);
    }
  };
  const auto pass_turn = [&] {
    if constexpr (C::kShape.turns) {
      ptx::named_barrier_arrive(C::kTurn + (consumer + 1) % C::kConsumers, 2 * kWarpgroupThreads);
    }
  };

  // Waits for K of the next tile, so that take_tile() need not. Its branch stands between the
  // exponentials and the wait for O: without a branch the compiler moves that wait above them.
  const auto wait_for_next_keys = [&] {
    if (tile == first_tile) return;
    const auto [next, phase] = slot(tile - 1);
    ptx::mbarrier_wait(&k_full[next], phase);  // K has arrived.
  };

  // One step: S of the tile, then O += P V of the previous tile (tile + 1), and the softmax
  // of this S while P V runs. wait_for_next_keys() has already waited for K of the tile.
  const auto take_tile = [&](auto masked) {
    constexpr bool kMasked = decltype(masked)::value;
    mark_tile("KV tile", tile);
    const int lane = opaque(thread) % 32u;
    const auto [stage, phase] = slot(tile);
    const auto [before, phase_before] = slot(tile + 1);
    ptx::mbarrier_wait(&v_full[before], phase_before);  // V of the previous tile has arrived.
    wait_for_turn();
    // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // (64, kBlockKV) f32 per warpgroup, registers
    issue_abt<T>(rS, sQ, consumer * kWgmmaM, sK[stage]);
    // O = O + P V of the previous tile
    issue_ab<T>(rO, rP, sV[before]);
    pass_turn();
    ptx::wgmma_wait<1>();  // S is there.

    // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
    float o_scale[2], tile_sum[2];
    bool rescale = false, recompute = false;
    if constexpr (kMasked) {
      mask_scores(rS, seq, i0 + r0, tile * C::kBlockKV, lane);
      rescale = softmax(rS, row, o_scale, scale_log2);
    } else {
      recompute = softmax_with_old_max(rS, row, tile_sum, scale_log2);
    }
    if (lane == 0 && !recompute) ptx::mbarrier_arrive(&k_empty[stage]);  // K_j has been read.
    wait_for_next_keys();
    ptx::wgmma_wait<0>();  // O is there, and V has been read.
    if (lane == 0) ptx::mbarrier_arrive(&v_empty[before]);

    // [FA2 Alg.1 l.10]  O = o_scale · O + P V_j    // the product is issued with the next S
    if (rescale) rescale_rows(rO, o_scale);
    pack_operands<T>(rP, rS);
    if (!recompute) return;
    recompute_large_rows<T>(rS, rO, rP, row, tile_sum, scale_log2, sQ, r0, sK[stage], lane);
    if (lane == 0) ptx::mbarrier_arrive(&k_empty[stage]);  // K_j is no longer needed.
  };

  ptx::mbarrier_wait(&storage.q_full, 0);  // Q has arrived.
  if (tile >= first_tile) {
    // Fill the pipeline: S alone, of the last tile, which is taken first.
    mark_tile("KV tile", tile);
    if (consumer == C::kConsumers - 1) pass_turn();  // Consumer 0 has the first turn.
    ptx::mbarrier_wait(&k_full[0], 0);               // K_j has arrived.
    wait_for_turn();
    // S = Q_i K_jᵀ
    issue_abt<T>(rS, sQ, consumer * kWgmmaM, sK[0]);
    pass_turn();
    ptx::wgmma_wait<0>();  // S is there, and K_j has been read.
    const int lane = opaque(thread) % 32u;
    if (lane == 0) ptx::mbarrier_arrive(&k_empty[0]);
    mask_scores(rS, seq, i0 + r0, tile * C::kBlockKV, lane);
    float o_scale[2];
    softmax(rS, row, o_scale, scale_log2);  // O, which is 0, needs no o_scale.
    wait_for_next_keys();
    pack_operands<T>(rP, rS);
    --tile;

    // [FA2 Alg.1 l.6, 11]  What is left of the diagonal and the tail, the tiles without a mask, the
    // window's left edge.
    while (tile >= first_tile) {
#pragma unroll 1
      for (; tile >= first_tile && (tile >= no_mask.end || tile < no_mask.begin); --tile) {
        take_tile(std::true_type{});
      }
#pragma unroll 1
      for (; tile >= first_tile && tile >= no_mask.begin && tile < no_mask.end; --tile) {
        take_tile(std::false_type{});
      }
    }

    // Drain the pipeline: P V alone, of the first tile, which is taken last.
    const auto [stage, phase] = slot(first_tile);
    ptx::mbarrier_wait(&v_full[stage], phase);  // V_j has arrived.
    wait_for_turn();
    // O = O + P V_j
    issue_ab<T>(rO, rP, sV[stage]);
    if (consumer < C::kConsumers - 1) pass_turn();
    ptx::wgmma_wait<0>();  // O is there.
  }
  mark_tile(nullptr, 0);

  // [FA2 Alg.1 l.12]  O = O / l    // into this warp's rows of sQ: its last product has read them
  const int lane = opaque(thread) % 32u;
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    row.sum[r] = quad_sum(row.sum[r]);
    inverse[r] = row.sum[r] > 0.f ? 1.f / row.sum[r] : 0.f;
  }
  store_rounded<T>(sQ, r0, 0, rO, inverse, lane);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int i = i0 + r0 + MmaAccumulator::row(lane, 2 * r);
    if (lane % 4 == 0 && i >= 0 && i < seq.num_queries && p.lse != nullptr) {
      p.lse[row_index(p, b, h, i)] = row.max[r] * kLn2 + logf(row.sum[r]);  // [FA2 Alg.1 l.13, 15]
    }
  }
  __syncwarp();  // The warp's rows are written before its lanes read them in another order.

  // [FA2 Alg.1 l.14]  write O_i
  write_rows<kMmaM, kHeadDim, 32>(rows<T>(p.o, b, h), sQ, r0, 0, i0, seq.num_queries, lane);
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::ping_pong
