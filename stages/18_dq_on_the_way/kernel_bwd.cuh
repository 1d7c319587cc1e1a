// 18_dq_on_the_way: the backward pass by wgmma, in blocks that stay. One thread has TMA add both
// consumers' dQ, in any order. Two warps, the keepers, look after the sum of dQ meanwhile: they
// write the zeros of pieces that come later, and round the sums of those that came before.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/hopper.h"
#include "device/ptx/unpack.h"
#include "device/vector.h"
#include "producer.cuh"

namespace cuflash::dq_on_the_way {

// A turn of consumer c, at the named barrier kTurn + c: from then on it computes P and dS of a
// tile, while the tensor cores compute the other consumer's products.
constexpr int kTurn = 1;

// A consumer waits for its turn at a barrier of its own, where the other arrives.
__device__ __forceinline__ void wait_for_turn(int consumer) {
  ptx::named_barrier_sync(kTurn + consumer, 2 * kWarpgroupThreads);
}
__device__ __forceinline__ void pass_turn(int consumer) {
  ptx::named_barrier_arrive(kTurn + (consumer ^ 1), 2 * kWarpgroupThreads);
}

// dS K_j of tile n of this block, issued    // (64, kWarpColumns) f32 per warpgroup, registers
template <class T, int kHeadDim>
__device__ __forceinline__ void issue_dq(typename BackwardConfig<kHeadDim>::Dq::Registers& rdQ,
                                         BackwardStorage<T, kHeadDim>& storage, unsigned n,
                                         unsigned slot, int consumer) {
  using Dq = typename BackwardConfig<kHeadDim>::Dq;
  const int first_warp = consumer * kWarpgroupWarps;
  ptx::mbarrier_wait(&storage.ds_full, n % 2);  // Both consumers have written their part of dS.
  issue_atb<T>(rdQ, storage.sdS[n % 2], Dq::row(first_warp), storage.sK[slot], Dq::col(first_warp));
}

// Hands dQ of tile n of this block on to the thread that adds it.
template <class T, int kHeadDim>
__device__ __forceinline__ void hand_on_dq(
    const typename BackwardConfig<kHeadDim>::Dq::Registers& rdQ,
    BackwardStorage<T, kHeadDim>& storage, unsigned n, int consumer, int warp, int lane) {
  using Dq = typename BackwardConfig<kHeadDim>::Dq;
  ptx::mbarrier_wait(&storage.dq_empty[consumer], n % 2 ^ 1);  // TMA has read what was there.
#pragma unroll
  for (int m = 0; m < Dq::kWarpColumns / kMmaN; ++m) {
    store4(&storage.sdQ[consumer][Dq::index(warp % kWarpgroupWarps, m, lane)],
           {rdQ[m][0], rdQ[m][1], rdQ[m][2], rdQ[m][3]});
  }
  ptx::fence_proxy_async();  // TMA will see what this thread has written.
  __syncwarp();              // All lanes have written and fenced.
  if (lane == 0) ptx::mbarrier_arrive(&storage.dq_full[consumer]);
}

// Writes a warp's rows of dK or dV, from row j of a head on.
template <class T, int kFragments>
__device__ __forceinline__ void write_gradient(Rows<T> gradient, int j, int num_keys,
                                               const float (&rG)[kFragments][4], float scale,
                                               int lane) {
  j += MmaAccumulator::row(lane, 0);
  T* const to = &gradient(j, lane % kWrittenTogether * kMmaN);
#pragma unroll
  for (int m = 0; m < kFragments; m += kWrittenTogether) {
    float4 r[kWrittenTogether];
#pragma unroll
    for (int f = 0; f < kWrittenTogether; ++f) {
      r[f] = {rG[m + f][0], rG[m + f][1], rG[m + f][2], rG[m + f][3]};
    }
    write_rounded(to + m * kMmaN, gradient.row_stride, num_keys - j, r, scale, lane);
  }
}

// dK = softmax_scale · dSᵀ Q and dV = Pᵀ dO, summed over the query heads that share the KV head,
// and dS K, added to dQ. A block computes pieces of kOwned rows of dK and dV.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads, 1)
    gradients(const __grid_constant__ BackwardParams p, const __grid_constant__ DqWorkspace scratch,
              const __grid_constant__ BackwardMaps maps,
              const __grid_constant__ Schedule schedule) {
  using C = BackwardConfig<kHeadDim>;
  auto& storage = shared_storage<BackwardStorage<T, kHeadDim>>();
  auto &sQ = storage.sQ, &sdO = storage.sdO;
  auto &full = storage.full, &empty = storage.empty;

  // Initialise the barriers, and find this warp's role.
  const int thread = threadIdx.x, warp = uniform(thread / 32), warpgroup = warp / kWarpgroupWarps;
  const auto role = warpgroup == 0 ? WarpRole::kProducer : WarpRole::kConsumer;
  if (thread == 0) begin_barriers(storage);
  __syncthreads();  // The barriers are initialised before a thread waits for one.

  if (role == WarpRole::kProducer) {
    ptx::setmaxnreg_dec<C::kProducerRegisters>();
    const int lane = thread % 32;
    if (warp == 0) {
      request_pieces(p, scratch, maps, schedule, storage, lane);
    } else if (warp >= 2) {
      keep_dq(p, scratch, schedule, storage, warp - 2, lane);
    } else if (lane == 0) {
      add_dq(p, scratch, schedule, storage);
    }
    return;
  }

  ptx::setmaxnreg_inc<C::kConsumerRegisters>();
  const int consumer = warpgroup - 1;
  const float scale_log2 = p.softmax_scale * kLog2e;
  if (consumer == 1) pass_turn(consumer);  // The first consumer begins.
  unsigned computed = 0;                   // tiles of queries, over all pieces
  bool dq_pending = false;                 // True if dQ of the last tile has not been issued yet.

#pragma unroll 1
  for (unsigned nth = 0;; ++nth) {  // [FA2 Alg.2 l.1-3, 5]
    computed = uniform(computed), nth = uniform(nth);
    const auto [k_slot, k_phase] = slot_of<2>(nth);
    const int slot = uniform(k_slot);
    ptx::mbarrier_wait(&storage.k_full[slot], k_phase);  // The piece and K have arrived.
    const Piece piece = uniform(storage.pieces[slot]);
    // The previous piece still lacks its last dQ. If no tile follows here to compute it along with,
    // compute it now.
    if (piece.num_steps == 0 && dq_pending) {
      typename C::Dq::Registers rdQ;
      issue_dq(rdQ, storage, computed - 1, slot ^ 1, opaque(consumer));
      ptx::wgmma_wait<0>();  // The last dQ is there.
      const int lane = opaque(thread) % 32u;
      // hand_on_dq() may wait. No tile follows at once, so K may be given back after it.
      hand_on_dq(rdQ, storage, computed - 1, consumer, warp, lane);
      if (lane == 0) ptx::mbarrier_arrive(&storage.k_empty[slot ^ 1]);
      dq_pending = false;
    }
    if (piece.number < 0) {
      if (consumer == 0) wait_for_turn(consumer);  // One turn is left over.
      return;
    }
    // [FA2 Alg.2 l.6-7]  K_j and V_j come from the producer; dK = 0, dV = 0
    typename C::Gradient rdK = {}, rdV = {};  // (64, kHeadDim) f32 per warpgroup, registers
    const int j0 = piece.j0;
    const unsigned begin = computed, end = computed + piece.num_steps;  // its tiles
    const Sequence seq = sequence(p, piece.batch);

    // S, dP, dV and dK of tile n of this block, and dQ of the previous tile. `first` is true if no
    // dQ is pending.
    const auto compute_tile = [&](auto first, unsigned n, const Step& at) {  // [FA2 Alg.2 l.8, 17]
      constexpr bool kFirst = decltype(first)::value;
      mark_tile("Q tile", at.tile);
      const int lane = opaque(thread) % 32u;
      const int key0 = opaque(consumer) * kWgmmaM;                   // this consumer's keys
      const int r0 = key0 + opaque(warp) % kWarpgroupWarps * kMmaM;  // this warp's keys
      const auto [stage, phase] = slot_of<C::kStages>(n);
      const int i0 = at.tile * C::kStreamed;

      // [FA2 Alg.2 l.9-10]  Q_i, dO_i come from the producer; Sᵀ = K_j Q_iᵀ    // (64, kStreamed)
      ptx::mbarrier_wait(&full[stage], phase);  // Q_i, dO_i, LSE_i and delta_i have arrived.
      typename C::Scores rS;
      issue_abt<T>(rS, storage.sK[slot], key0, sQ[stage]);

      // [FA2 Alg.2 l.13]  dPᵀ = V_j dO_iᵀ, issued    // (64, kStreamed) f32 per warpgroup
      ptx::mbarrier_wait(&storage.v_full, nth % 2);  // V has arrived.
      typename C::Scores rdP;
      issue_abt<T>(rdP, storage.sV, key0, sdO[stage]);
      ptx::wgmma_wait<1>();  // S is there.
      wait_for_turn(consumer);

      // Mask the scores.
      if (!all_visible(seq, i0, C::kStreamed, j0, C::kOwned)) {
        mask_transposed_scores(rS, seq, j0 + r0, i0, lane);
      }

      // [FA2 Alg.2 l.11]  P = exp(S − LSE)    // 2^kLog2OfP times as large
#pragma unroll
      for (int m = 0; m < C::kStreamed / kMmaN; ++m) {
        const int c = m * kMmaN + MmaAccumulator::col(lane, 0);
        const float2 lse = *reinterpret_cast<const float2*>(&storage.s_lse[stage][c]);
#pragma unroll
        for (int e = 0; e < MmaAccumulator::kElements; ++e) {
          rS[m][e] = ptx::exp2(fmaf(rS[m][e], scale_log2, e % 2 == 0 ? -lse.x : -lse.y));
        }
      }
      MmaA::Registers rA[C::kStreamed / kWgmmaK];  // P, and then dS, rounded
      pack_operands<T>(rA, rS);

      // [FA2 Alg.2 l.12]  dV = dV + Pᵀ dO_i, issued
      issue_ab<T>(rdV, rA, sdO[stage]);
      ptx::wgmma_wait<1>();  // dP is there.
      if (n + 1 == end && lane == 0) {
        ptx::mbarrier_arrive(&storage.v_empty);  // The last dP of the piece has read V.
      }

      // [FA2 Alg.2 l.14]  dS = P ∘ (dP − delta)
#pragma unroll
      for (int m = 0; m < C::kStreamed / kMmaN; ++m) {
        const int c = m * kMmaN + MmaAccumulator::col(lane, 0);
        const float2 delta = *reinterpret_cast<const float2*>(&storage.s_delta[stage][c]);
#pragma unroll
        for (int e = 0; e < MmaAccumulator::kElements; e += 2) {
          const float2 prob = ptx::unpack<T>(rA[m / 2][m % 2 * 2 + e / 2]);
          rdP[m][e] = prob.x * fmaf(rdP[m][e], kSmallP, -delta.x);
          rdP[m][e + 1] = prob.y * fmaf(rdP[m][e + 1], kSmallP, -delta.y);
        }
      }
      pass_turn(consumer);   // dS is there in f32: the other may compute while products run here.
      ptx::wgmma_wait<0>();  // dV is there: no product reads P any more.
      pack_operands<T>(rA, rdP);

      // [FA2 Alg.2 l.16]  dK = dK + dSᵀ Q_i, issued
      issue_ab<T>(rdK, rA, sQ[stage]);

      // [FA2 Alg.2 l.15]  dS K_j of the previous tile: the other consumer has had time to write dS
      typename C::Dq::Registers rdQ;
      if constexpr (!kFirst) {
        // The tile before a piece's first is another piece's last: its K is in the other slot.
        issue_dq(rdQ, storage, n - 1, uniform(slot ^ (n == begin)), opaque(consumer));
      }

      // Give the other consumer this one's rows of dS: dQ is a sum over all keys. No product reads
      // this buffer any more: issue_dq() has waited for dS of tile n - 1, which each consumer
      // announces only when its dQ of tile n - 2 is there. If kFirst is true, dQ of tile n - 1 was
      // computed alone, behind the same wait, or there is no such tile.
#pragma unroll
      for (int k = 0; k < C::kStreamed / kWgmmaK; ++k) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          pair(storage.sdS[n % 2], r0 + MmaA::row(lane, 2 * e),
               k * kWgmmaK + MmaA::col(lane, 2 * e)) = rA[k][e];
        }
      }
      ptx::fence_proxy_async();  // The other consumer's products read what this thread has written.
      ptx::wgmma_wait<0>();      // dK and dQ are there; Q_i, dO_i and the older dS have been read.
      __syncwarp();              // All lanes have written their dS, and read LSE_i and delta_i.
      if (lane == 0) {
        ptx::mbarrier_arrive(&storage.ds_full);
        ptx::mbarrier_arrive(&empty[stage]);
      }
      if constexpr (!kFirst) {
        // The last dQ of the previous piece has read its K.
        if (n == begin && lane == 0) ptx::mbarrier_arrive(&storage.k_empty[slot ^ 1]);
        hand_on_dq(rdQ, storage, n - 1, consumer, warp, opaque(thread) % 32u);
      }
    };

    // Stream the queries of each head that shares the KV head. If no dQ is pending, the first tile
    // has none to compute along with it.
    Step at(piece);
    if (computed < end && !dq_pending) {
      compute_tile(std::true_type{}, computed++, at);
      at.advance();
      dq_pending = true;
      computed = uniform(computed);
    }
#pragma unroll 1
    for (; computed < end; ++computed, at.advance()) {
      compute_tile(std::false_type{}, computed, at);
    }
    mark_tile(nullptr, 0);

    // [FA2 Alg.2 l.18]  write dK_j, dV_j
    const auto write = [&](const Tensor& gradient, const typename C::Gradient& rG, float scale) {
      const Piece& again = storage.pieces[opaque(slot)];  // Read again, it holds no registers.
      const int row0 = opaque(consumer) * kWgmmaM + opaque(warp) % kWarpgroupWarps * kMmaM;
      write_gradient(rows<T>(gradient, again.batch, again.kv_head), j0 + row0, seq.num_keys, rG,
                     scale, opaque(thread) % 32u);
    };
    write(p.dv, rdV, kSmallP);
    write(p.dk, rdK, p.softmax_scale);
    if (piece.num_steps == 0) {
      // No query sees this piece, but its copy of V must finish before the buffer is reused.
      ptx::mbarrier_wait(&storage.v_full, nth % 2);
      __syncwarp();  // All lanes have read the piece.
      if (opaque(thread) % 32u == 0) {
        ptx::mbarrier_arrive(&storage.v_empty);
        ptx::mbarrier_arrive(&storage.k_empty[slot]);
      }
    }
  }
}  // [FA2 Alg.2 l.19-20]

}  // namespace cuflash::dq_on_the_way
