// 16_overlapped_backward: the backward pass by wgmma, with products under the softmax. P and dS are
// left operands in registers; dS alone also goes to shared memory, since dQ is a sum over both
// consumers' keys. dQ of a tile is computed along with the next one, and the consumers take turns
// at computing P and dS. The producer and the addition to dQ are those of 15.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/hopper.h"
#include "device/ptx/unpack.h"
#include "device/vector.h"
#include "producer.cuh"

namespace cuflash::overlapped_backward {

// The named barriers of both consumers. At kProductsDone both have finished all products. At
// kTurn + c consumer c gets its turn: from then on it computes P and dS of a tile, while the tensor
// cores compute the other consumer's products. (In 13 a turn is for issuing products instead.)
enum NamedBarrier { kProductsDone = 1, kTurn };

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
                                         int consumer) {
  using Dq = typename BackwardConfig<kHeadDim>::Dq;
  const int first_warp = consumer * kWarpgroupWarps;
  ptx::mbarrier_wait(&storage.ds_full, n % 2);  // Both consumers have written their part of dS.
  issue_atb<T>(rdQ, storage.sdS[n % 2], Dq::row(first_warp), storage.sK, Dq::col(first_warp));
}

// Hands dQ of tile n of this block on to the thread that adds it.
template <class T, int kHeadDim>
__device__ __forceinline__ void hand_on_dq(
    const typename BackwardConfig<kHeadDim>::Dq::Registers& rdQ,
    BackwardStorage<T, kHeadDim>& storage, unsigned n, int consumer_warp, int lane) {
  using Dq = typename BackwardConfig<kHeadDim>::Dq;
  ptx::mbarrier_wait(&storage.dq_empty, n % 2 ^ 1);  // TMA has read the previous tile.
#pragma unroll
  for (int m = 0; m < Dq::kWarpColumns / kMmaN; ++m) {
    store4(&storage.sdQ[Dq::index(consumer_warp, m, lane)],
           {rdQ[m][0], rdQ[m][1], rdQ[m][2], rdQ[m][3]});
  }
  ptx::fence_proxy_async();  // TMA will see what this thread has written.
  __syncwarp();              // All lanes have written and fenced.
  if (lane == 0) ptx::mbarrier_arrive(&storage.dq_full);
}

// dK = softmax_scale · dSᵀ Q and dV = Pᵀ dO, summed over the query heads that share the KV head,
// and dS K, added to dQ. A block computes kOwned rows of dK and dV.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads, 1)
    gradients(const __grid_constant__ BackwardParams p, const __grid_constant__ DqWorkspace scratch,
              const __grid_constant__ BackwardMaps maps) {
  using C = BackwardConfig<kHeadDim>;
  using Storage = BackwardStorage<T, kHeadDim>;
  auto& storage = shared_storage<Storage>();
  auto &sK = storage.sK, &sV = storage.sV;
  auto &sQ = storage.sQ, &sdO = storage.sdO;
  auto &full = storage.full, &empty = storage.empty;

  // Initialise the barriers, and find this warp's role.
  const int thread = threadIdx.x, warp = uniform(thread / 32), warpgroup = warp / kWarpgroupWarps;
  const auto role = warpgroup == 0 ? WarpRole::kProducer : WarpRole::kConsumer;
  if (thread == 0) {
    ptx::mbarrier_init(&storage.kv_full, 2);
#pragma unroll
    for (int stage = 0; stage < C::kStages; ++stage) {
      ptx::mbarrier_init(&full[stage], 2 + 32);  // two copies, and a warp that copies rows itself
      ptx::mbarrier_init(&empty[stage], C::kWarps);
    }
    ptx::mbarrier_init(&storage.ds_full, C::kWarps);
    ptx::mbarrier_init(&storage.dq_full, C::kWarps);
    ptx::mbarrier_init(&storage.dq_empty, 1);
    ptx::fence_mbarrier_init();
    storage.block = block_number(scratch);
  }
  __syncthreads();  // The barriers are initialised, and the number is there.

  // Find this block's KV head and keys, and the queries that see some of them.
  const Piece piece = piece_of<kHeadDim>(p, storage.block);  // [FA2 Alg.2 l.1-3, 5]

  if (role == WarpRole::kProducer) {
    ptx::setmaxnreg_dec<C::kProducerRegisters>();
    const int lane = thread % 32;
    if (warp == 0) request_tiles(p, scratch, maps, piece, storage, lane);
    if (warp == 1 && lane == 0) add_dq(p, scratch, piece, storage);
    return;
  }

  // [FA2 Alg.2 l.6-7]  K_j and V_j come from the producer; dK = 0, dV = 0
  ptx::setmaxnreg_inc<C::kConsumerRegisters>();
  const int consumer = warpgroup - 1, consumer_warp = warp - kWarpgroupWarps;
  const float scale_log2 = p.softmax_scale * kLog2e;
  const int j0 = piece.j0;
  const Sequence seq = sequence(p, piece.batch);
  if (consumer == 1) pass_turn(consumer);  // The first consumer begins.

  typename C::Gradient rdK = {}, rdV = {};  // (64, kHeadDim) f32 per warpgroup, registers

  // S, dP, dV and dK of tile n of this block, and dQ of the previous tile.
  const auto compute_tile = [&](auto first, int n, const Step& at) {  // [FA2 Alg.2 l.8, 17]
    constexpr bool kFirst = decltype(first)::value;
    mark_tile("Q tile", at.tile);
    // What opaque() hides is computed anew in each tile: it holds no register through the loop.
    const int lane = opaque(thread) % 32u;
    const int key0 = opaque(consumer) * kWgmmaM;                   // this consumer's keys
    const int r0 = key0 + opaque(warp) % kWarpgroupWarps * kMmaM;  // this warp's keys
    const auto [stage, phase] = slot_of<C::kStages>(n);
    const int i0 = at.tile * C::kStreamed;

    // [FA2 Alg.2 l.9-10]  Q_i, dO_i come from the producer; Sᵀ = K_j Q_iᵀ    // (64, kStreamed)
    ptx::mbarrier_wait(&full[stage], phase);  // Q_i, dO_i, LSE_i and delta_i have arrived.
    typename C::Scores rS;
    issue_abt<T>(rS, sK, key0, sQ[stage]);

    // [FA2 Alg.2 l.13]  dPᵀ = V_j dO_iᵀ, issued    // (64, kStreamed) f32 per warpgroup
    typename C::Scores rdP;
    issue_abt<T>(rdP, sV, key0, sdO[stage]);
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
      issue_dq(rdQ, storage, n - 1, opaque(consumer));
    }

    // Give the other consumer this one's rows of dS: dQ is a sum over all keys. No product reads
    // this buffer any more: issue_dq() has waited for dS of tile n - 1, which each consumer
    // announces only when its dQ of tile n - 2 is there. (Tiles 0 and 1 find it unused.)
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
    if constexpr (!kFirst) hand_on_dq(rdQ, storage, n - 1, consumer_warp, opaque(thread) % 32u);
  };

  // Stream the queries of each head that shares the KV head.
  ptx::mbarrier_wait(&storage.kv_full, 0);  // K and V have arrived.
  if (piece.num_steps > 0) {
    Step at(piece);
    compute_tile(std::true_type{}, 0, at);
    at.advance();
#pragma unroll 1
    for (int n = 1; n < piece.num_steps; ++n, at.advance()) {
      compute_tile(std::false_type{}, n, at);
    }
    // Finish the last tile.
    typename C::Dq::Registers rdQ;
    issue_dq(rdQ, storage, piece.num_steps - 1, opaque(consumer));
    ptx::wgmma_wait<0>();  // The last dQ is there.
    hand_on_dq(rdQ, storage, piece.num_steps - 1, consumer_warp, opaque(thread) % 32u);
  }
  mark_tile(nullptr, 0);
  if (consumer == 0) wait_for_turn(consumer);  // One turn is left over.
  // All products have read K and V.
  ptx::named_barrier_sync(kProductsDone, C::kConsumers * kWarpgroupThreads);

  // [FA2 Alg.2 l.18]  write dK_j, dV_j    // by way of this warp's part of sK and sV
  const int lane = opaque(thread) % 32u;
  const int r0 = consumer_warp * kMmaM;
  const auto write = [&](auto& tile, const typename C::Gradient& rG, float scale,
                         const Tensor& out) {
    store_rounded<T>(tile, r0, 0, rG, scale, lane);
    __syncwarp();  // The part is written before lanes read it in another order.
    write_rows<kMmaM, kHeadDim, 32>(rows<T>(out, piece.batch, piece.kv_head), tile, r0, 0, j0,
                                    seq.num_keys, lane);
  };
  write(sK, rdK, p.softmax_scale, p.dk);
  write(sV, rdV, kSmallP, p.dv);
}  // [FA2 Alg.2 l.19-20]

}  // namespace cuflash::overlapped_backward
