// 14_persistent: a persistent grid. One block per SM stays and computes one tile of queries after
// the other. Where Q has a second buffer, the producer requests the next Q, K and V while the
// consumers finish a tile. O is stored by TMA from the buffer of its Q.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/hopper.h"
#include "device/softmax.h"
#include "producer.cuh"
#include "shape.cuh"
#include "storage.cuh"
#include "work.cuh"

namespace cuflash::persistent {

// Gives back K and V of a tile of which this consumer's queries see no key. The producer copies all
// tiles of the block, and refills a buffer when all consumers have arrived.
template <class Storage>
__device__ __forceinline__ void give_back(Storage& storage, const Slot& slot, int lane) {
  const auto [stage, phase] = slot;
  // Why wait for a tile that is not read: before it is full, k_empty may still be in its previous
  // phase, and the arrival would count there. And if lane 0 arrived before all lanes have seen the
  // end of k_full's phase, the buffer could be refilled, and a late lane would miss that phase.
  ptx::mbarrier_wait(&storage.k_full[stage], phase);
  __syncwarp();  // All lanes have waited for K.
  if (lane == 0) ptx::mbarrier_arrive(&storage.k_empty[stage]);
  ptx::mbarrier_wait(&storage.v_full[stage], phase);
  __syncwarp();  // All lanes have waited for V.
  if (lane == 0) ptx::mbarrier_arrive(&storage.v_empty[stage]);
}

// O = softmax(softmax_scale · Q Kᵀ) V. A block computes tiles of kBlockQ rows of O, one warpgroup
// 64 of them, a warp 16. Of these a lane holds parts of two rows, lane / 4 and lane / 4 + 8.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads, 1)
    attention(const __grid_constant__ ForwardParams p, const __grid_constant__ Maps maps,
              const __grid_constant__ TileRounds order) {
  using C = Config<kHeadDim>;
  using Storage = SharedStorage<T, kHeadDim>;
  auto& storage = shared_storage<Storage>();
  auto &sK = storage.sK, &sV = storage.sV;
  auto &k_full = storage.k_full, &v_full = storage.v_full;
  auto &k_empty = storage.k_empty, &v_empty = storage.v_empty;

  // Find this warp's role.
  const int thread = threadIdx.x, warp = uniform(thread / 32), warpgroup = warp / kWarpgroupWarps;
  const auto role = warpgroup == 0 ? WarpRole::kProducer : WarpRole::kConsumer;

  // Initialise the barriers.
  if (thread == 0) begin_barriers(storage);
  __syncthreads();  // The barriers are initialised before a thread uses one.

  // Produce: one thread requests tiles, others store O.
  if (role == WarpRole::kProducer) {
    ptx::setmaxnreg_dec<C::kProducerRegisters>();
    if (thread % 32 != 0) return;
    if (warp == 0) {
      request_work(storage, p, maps, order, blockIdx.x);
    } else if (warp <= C::kConsumers) {  // A warp without a consumer has no O to store.
      store_outputs(storage, p, maps.o, warp);
    }
    return;
  }

  ptx::setmaxnreg_inc<C::kConsumerRegisters>();
  const int consumer = warpgroup - 1, r0 = (warp - kWarpgroupWarps) * kMmaM;
  const float scale_log2 = p.softmax_scale * kLog2e;
  MmaAccumulator::Registers rO[kHeadDim / kMmaN];
  MmaAccumulator::Registers rS[C::kBlockKV / kMmaN];  // the scores of a tile, and then its P in f32
  MmaA::Registers rP[C::kBlockKV / kWgmmaK];          // the same lanes hold the same elements

  int taken = 0;  // tiles of keys of all earlier work: the ring of K and V goes on across it
#pragma unroll 1
  for (int n = 0;; ++n) {  // [FA2 Alg.1 l.1-3]
    // [FA2 Alg.1 l.4-7]  Q_i, K_j and V_j come from the producer; O = 0, l = 0, m = -inf
    const auto [q, q_phase] = slot_of<C::kQStages>(n);
    auto& sQ = storage.sQ[q];
    ptx::mbarrier_wait(&storage.q_full[q], q_phase);  // Q has arrived.
    const Work<C>& work = storage.work[q];
    const int b = uniform(work.batch);
    if (b < 0) break;
    const int h = uniform(work.head), i0 = uniform(work.i0);
    const Sequence seq = sequence(p, b);
    const KeyWalk<C> walk(work, consumer, taken);
    const int first_tile = walk.visible.begin;
    RowState row = {{-INFINITY, -INFINITY}, {}};  // Consumers before the head see no key.

    // Waits for K of the next tile, so that take_tile() need not. Its branch stands between the
    // exponentials and the wait for O: without a branch the compiler moves that wait above them.
    const auto wait_for_next_keys = [&](int tile) {
      if (tile == first_tile) return;
      const auto [next, phase] = walk.slot(tile - 1);
      ptx::mbarrier_wait(&k_full[next], phase);  // K has arrived.
    };

    // One step: S of the tile, then O += P V of the previous tile (tile + 1), and the softmax
    // of this S while P V runs. wait_for_next_keys() has already waited for K of the tile.
    const auto take_tile = [&](int tile, auto masked) {
      constexpr bool kMasked = decltype(masked)::value;
      mark_tile("KV tile", tile);
      const int lane = opaque(thread) % 32u;
      const auto [stage, phase] = walk.slot(tile);
      const auto [before, phase_before] = walk.slot(tile + 1);
      ptx::mbarrier_wait(&v_full[before], phase_before);  // V of the previous tile has arrived.
      // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // (64, kBlockKV) f32 per warpgroup, registers
      issue_abt<T>(rS, sQ, consumer * kWgmmaM, sK[stage]);
      // O = O + P V of the previous tile
      issue_ab<T>(rO, rP, sV[before]);
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
      wait_for_next_keys(tile);
      ptx::wgmma_wait<0>();  // O is there, and V has been read.
      if (lane == 0) ptx::mbarrier_arrive(&v_empty[before]);

      // [FA2 Alg.1 l.10]  O = o_scale · O + P V_j    // the product is issued with the next S
      if (rescale) rescale_rows(rO, o_scale);
      pack_operands<T>(rP, rS);
      if (!recompute) return;
      recompute_large_rows<T>(rS, rO, rP, row, tile_sum, scale_log2, sQ, r0, sK[stage], lane);
      if (lane == 0) ptx::mbarrier_arrive(&k_empty[stage]);  // K_j is no longer needed.
    };

    int tile = walk.key_tiles.end - 1;
#pragma unroll 1
    for (; tile >= walk.key_tiles.begin && tile >= walk.visible.end; --tile) {
      give_back(storage, walk.slot(tile), opaque(thread) % 32u);
    }
    if (tile >= first_tile) {
      // Fill the pipeline: S alone, of the last tile, which is taken first.
      mark_tile("KV tile", tile);
      const auto [stage, phase] = walk.slot(tile);
      ptx::mbarrier_wait(&k_full[stage], phase);  // K_j has arrived.
      // S = Q_i K_jᵀ
      issue_abt<T>(rS, sQ, consumer * kWgmmaM, sK[stage]);
      for (auto& o : rO) o[0] = o[1] = o[2] = o[3] = 0.f;  // while S is computed
      ptx::wgmma_wait<0>();                                // S is there, and K_j has been read.
      const int lane = opaque(thread) % 32u;
      if (lane == 0) ptx::mbarrier_arrive(&k_empty[stage]);
      if (walk.needs_mask(tile)) mask_scores(rS, seq, i0 + r0, tile * C::kBlockKV, lane);
      float o_scale[2];
      softmax(rS, row, o_scale, scale_log2);  // O, which is 0, needs no o_scale.
      wait_for_next_keys(tile);
      pack_operands<T>(rP, rS);
      --tile;

      // [FA2 Alg.1 l.6, 11]  What is left of the diagonal and the tail, the tiles without a mask,
      // the window's left edge.
      while (tile >= first_tile) {
#pragma unroll 1
        for (; tile >= first_tile && walk.needs_mask(tile); --tile) {
          take_tile(tile, std::true_type{});
        }
#pragma unroll 1
        for (; tile >= first_tile && !walk.needs_mask(tile); --tile) {
          take_tile(tile, std::false_type{});
        }
      }

      // Drain the pipeline: P V alone, of the first tile, which is taken last.
      const auto [last, phase_last] = walk.slot(first_tile);
      ptx::mbarrier_wait(&v_full[last], phase_last);  // V_j has arrived.
      // O = O + P V_j
      issue_ab<T>(rO, rP, sV[last]);
      ptx::wgmma_wait<0>();  // O is there, and V_j has been read.
      if (thread % 32 == 0) ptx::mbarrier_arrive(&v_empty[last]);
    } else {
      for (auto& o : rO) o[0] = o[1] = o[2] = o[3] = 0.f;
    }
#pragma unroll 1
    for (; tile >= walk.key_tiles.begin; --tile) {
      give_back(storage, walk.slot(tile), opaque(thread) % 32u);
    }
    taken += walk.key_tiles.end - walk.key_tiles.begin;
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
    // [FA2 Alg.1 l.14]  write O_i    // by one of the producer's warps
    ptx::fence_proxy_async();  // TMA will see what this thread has written.
    __syncwarp();              // All lanes have written and fenced.
    if (lane == 0) ptx::mbarrier_arrive(&storage.o_full[q][consumer]);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = i0 + r0 + MmaAccumulator::row(lane, 2 * r);
      if (lane % 4 == 0 && i >= 0 && i < seq.num_queries && p.lse != nullptr) {
        p.lse[row_index(p, b, h, i)] =
            row.max[r] * kLn2 + logf(row.sum[r]);  // [FA2 Alg.1 l.13, 15]
      }
    }
  }
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::persistent
