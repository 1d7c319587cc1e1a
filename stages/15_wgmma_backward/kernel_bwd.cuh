// 15_wgmma_backward: the backward pass by wgmma. A block owns keys. Its producer requests Q and
// dO tile by tile from TMA, two consumers compute the five products, and another warp makes TMA add
// their terms of dQ to global memory, in f32.
#pragma once

#include <cmath>

#include "device/hopper.h"
#include "device/ptx/unpack.h"
#include "device/vector.h"
#include "shape.cuh"

namespace cuflash::wgmma_backward {

// The named barriers of both consumers. At kProductsDone both have finished all products that they
// have issued; at kScoresWritten both have written P and dS.
enum NamedBarrier { kProductsDone = 1, kScoresWritten };

template <class T, int kHeadDim>
struct BackwardStorage {
  using C = BackwardConfig<kHeadDim>;
  using KVTile = SwizzledTile<T, C::kOwned, kHeadDim>;
  using QTile = SwizzledTile<T, C::kStreamed, kHeadDim>;
  using ScoreTile = SwizzledTile<T, C::kOwned, C::kStreamed>;
  KVTile sK, sV;  // at the end, dK and dV
  QTile sQ[C::kStages], sdO[C::kStages];
  ScoreTile sP, sdS;                       // Pᵀ and dSᵀ
  alignas(128) float sdQ[C::Dq::kFloats];  // the terms to be added
  alignas(16) float s_lse[C::kStages][C::kStreamed], s_delta[C::kStages][C::kStreamed];
  std::uint64_t kv_full;                              // K and V have arrived
  std::uint64_t full[C::kStages], empty[C::kStages];  // a tile has arrived; consumers have read it
  std::uint64_t dq_full, dq_empty;                    // sdQ has been written; TMA has read it
  unsigned block;                                     // this block's number
};

// A kernel's parameter, __grid_constant__.
struct BackwardMaps {
  TileMap q, k, v, d_o;
};

// Steps through a block's tiles of queries, one head after the other.
struct Step {
  int first, end;  // the tiles of a head
  int head, tile;

  __device__ __forceinline__ Step next() const {
    const bool last = tile + 1 == end;
    return {first, end, head + last, last ? first : tile + 1};
  }
};

// Where a consumer's part of each product begins.
template <int kHeadDim>
struct Part {
  using C = BackwardConfig<kHeadDim>;
  int key0;    // rows of Sᵀ, dPᵀ, dK and dV
  int query0;  // columns of Sᵀ and dPᵀ
  int col0;    // columns of dK and dV
  // Rows and columns of dQ. The keys of the block cannot be divided here, since dQ is a sum over
  // all of them: the consumers divide its queries, or if a tile has only 64, its columns.
  int dq_query0, dq_col0;

  __device__ __forceinline__ explicit Part(int consumer)
      : key0(C::kByKeys ? consumer * kWgmmaM : 0),
        query0(C::kByKeys ? 0 : consumer * C::kScoreCols),
        col0(C::kByKeys ? 0 : consumer * C::kGradientCols),
        dq_query0(C::Dq::kByRows ? consumer * kWgmmaM : 0),
        dq_col0(C::Dq::kByRows ? 0 : consumer * C::Dq::kWarpColumns) {}
};

// The elements of accumulators, rounded, two in a register.
template <class T, int kFragments>
__device__ __forceinline__ void pack_all(std::uint32_t (&to)[kFragments][2],
                                         const float (&r)[kFragments][4]) {
#pragma unroll
  for (int m = 0; m < kFragments; ++m) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      to[m][n] = pack<T>(opaque(r[m][2 * n]), opaque(r[m][2 * n + 1]));
    }
  }
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
  auto &sP = storage.sP, &sdS = storage.sdS;
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
    ptx::mbarrier_init(&storage.dq_full, C::kWarps);
    ptx::mbarrier_init(&storage.dq_empty, 1);
    ptx::fence_mbarrier_init();
    storage.block = block_number(scratch);
  }
  __syncthreads();  // The barriers are initialised, and the number is there.

  // Find this block's KV head and keys. place.row is its place among the tiles of the head.
  const int tiles = num_tiles(p.seq_kv, C::kOwned);
  const Place place = uniform(unravel(storage.block, p.heads_kv, tiles, 1));
  const int b = place.batch, h_kv = place.head;              // [FA2 Alg.2 l.1-3]
  const int j0 = nth_tile(p, tiles, place.row) * C::kOwned;  // [FA2 Alg.2 l.5]
  const Sequence seq = sequence(p, b);
  const bool wants_dq = p.dq.data != nullptr, wants_dk = p.dk.data != nullptr;
  const bool wants_dv = p.dv.data != nullptr;

  // Find the tiles of queries that see some of the keys, in each head that shares the KV head.
  const int group = p.heads_q / p.heads_kv;
  const Range queries = visible_queries(seq, j0, j0 + C::kOwned);
  const int first_tile = queries.begin / C::kStreamed;
  const int end_tile =
      queries.end > queries.begin ? (queries.end - 1) / C::kStreamed + 1 : first_tile;
  const int num_steps = (end_tile - first_tile) * group;
  Step at = {first_tile, end_tile, h_kv * group, first_tile};

  if (role == WarpRole::kProducer) {
    ptx::setmaxnreg_dec<C::kProducerRegisters>();
    const int lane = thread % 32;
    const auto tile_index = [&] {
      return (std::int64_t{b} * p.heads_q + at.head) * scratch.q_tiles + at.tile;
    };
    // Produce: one warp requests K and V, and all tiles of Q and dO, with their LSE and delta.
    if (warp == 0) {
      if (lane == 0) {
        request_tile(sK, maps.k, j0, h_kv, b, storage.kv_full);
        request_tile(sV, maps.v, j0, h_kv, b, storage.kv_full);
      }
#pragma unroll 1
      for (int n = 0; n < num_steps; ++n, at = at.next()) {
        const auto [stage, phase] = slot_of<C::kStages>(n);
        ptx::mbarrier_wait(&empty[stage], phase ^ 1);  // The consumers have read what was there.
        if (lane == 0) {
          const int i0 = at.tile * C::kStreamed;
          request_tile(sQ[stage], maps.q, i0, at.head, b, full[stage]);
          request_tile(sdO[stage], maps.d_o, i0, at.head, b, full[stage]);
        }
        const std::int64_t row = tile_index() * C::kStreamed;
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
    if (warp == 1 && lane == 0 && wants_dq) {
#pragma unroll 1
      for (int n = 0; n < num_steps; ++n, at = at.next()) {
        const std::int64_t tile = tile_index();
        wait_to_add(scratch, tile,
                    adds_before(seq, at.tile * C::kStreamed, C::kStreamed, j0, C::kOwned));
        ptx::mbarrier_wait(&storage.dq_full, n % 2);  // The consumers have written sdQ.
        add_to_dq(scratch, tile, storage.sdQ);
        ptx::mbarrier_arrive(&storage.dq_empty);
        let_next_add(scratch, tile);
      }
    }
    return;
  }

  // [FA2 Alg.2 l.6-7]  K_j and V_j come from the producer; dK = 0, dV = 0
  ptx::setmaxnreg_inc<C::kConsumerRegisters>();
  const int consumer = warpgroup - 1, consumer_warp = warp - kWarpgroupWarps;
  const float scale_log2 = p.softmax_scale * kLog2e;
  const auto sync_consumers = [](NamedBarrier barrier) {
    ptx::named_barrier_sync(barrier, C::kConsumers * kWarpgroupThreads);
  };

  typename C::Gradient rdK = {}, rdV = {};  // (64, kGradientCols) f32 per warpgroup, registers

  ptx::mbarrier_wait(&storage.kv_full, 0);  // K and V have arrived.
#pragma unroll 1
  for (int n = 0; n < num_steps; ++n, at = at.next()) {  // [FA2 Alg.2 l.8, 17]
    mark_tile("Q tile", at.tile);
    // What opaque() hides is computed anew in each tile: it holds no register through the loop.
    const int lane = opaque(thread) % 32u;
    const auto [key0, query0, col0, dq_query0, dq_col0] = Part<kHeadDim>(opaque(consumer));
    const int r0 = key0 + opaque(warp) % kWarpgroupWarps * kMmaM;  // this warp's keys
    const auto [stage, phase] = slot_of<C::kStages>(n);
    const int i0 = at.tile * C::kStreamed;

    // [FA2 Alg.2 l.9-10]  Q_i, dO_i come from the producer; Sᵀ = K_j Q_iᵀ    // (64, kScoreCols)
    ptx::mbarrier_wait(&full[stage], phase);  // Q_i, dO_i, LSE_i and delta_i have arrived.
    typename C::Scores rS;
    issue_abt<T>(rS, sK, key0, sQ[stage], query0);
    ptx::wgmma_wait<0>();  // S is there.

    // Mask the scores.
    if (!all_visible(seq, i0, C::kStreamed, j0, C::kOwned)) {
      mask_transposed_scores(rS, seq, j0 + r0, i0 + query0, lane);
    }

    // [FA2 Alg.2 l.11]  P = exp(S − LSE)    // rounded, in shared memory, 2^kLog2OfP times as large
#pragma unroll
    for (int m = 0; m < C::kScoreCols / kMmaN; ++m) {
      const int c = query0 + m * kMmaN + MmaAccumulator::col(lane, 0);
      const float2 lse = *reinterpret_cast<const float2*>(&storage.s_lse[stage][c]);
#pragma unroll
      for (int e = 0; e < MmaAccumulator::kElements; ++e) {
        rS[m][e] = ptx::exp2(fmaf(rS[m][e], scale_log2, e % 2 == 0 ? -lse.x : -lse.y));
      }
    }
    // All of LSE is loaded before P is written: ptxas moves no load above a store.
    std::uint32_t rounded[C::kScoreCols / kMmaN][2];
    // (In C++17 a lambda cannot capture a structured binding by its name alone.)
    const auto write_scores = [&, query0 = query0](auto& tile) {
#pragma unroll
      for (int m = 0; m < C::kScoreCols / kMmaN; ++m) {
        const int c = query0 + m * kMmaN + MmaAccumulator::col(lane, 0);
#pragma unroll
        for (int e = 0; e < MmaAccumulator::kElements; e += 2) {
          pair(tile, r0 + MmaAccumulator::row(lane, e), c) = rounded[m][e / 2];
        }
      }
    };
    pack_all<T>(rounded, rS);
    sync_consumers(kProductsDone);  // All products have read P and dS of the previous tile.
    write_scores(sP);

    if (wants_dk || wants_dq) {
      // [FA2 Alg.2 l.13]  dPᵀ = V_j dO_iᵀ    // (64, kScoreCols) f32 per warpgroup, registers
      typename C::Scores rdP;
      issue_abt<T>(rdP, sV, key0, sdO[stage], query0);
      ptx::wgmma_wait<0>();  // dP is there.

      // [FA2 Alg.2 l.14]  dS = P ∘ (dP − delta)    // rounded, in shared memory
#pragma unroll
      for (int m = 0; m < C::kScoreCols / kMmaN; ++m) {
        const int c = query0 + m * kMmaN + MmaAccumulator::col(lane, 0);
        const float2 delta = *reinterpret_cast<const float2*>(&storage.s_delta[stage][c]);
#pragma unroll
        for (int e = 0; e < MmaAccumulator::kElements; e += 2) {
          const float2 prob = ptx::unpack<T>(pair(sP, r0 + MmaAccumulator::row(lane, e), c));
          rdP[m][e] = prob.x * fmaf(rdP[m][e], kSmallP, -delta.x);
          rdP[m][e + 1] = prob.y * fmaf(rdP[m][e + 1], kSmallP, -delta.y);
        }
      }
      pack_all<T>(rounded, rdP);
      write_scores(sdS);
    }
    ptx::fence_proxy_async();        // Products read what this thread has written.
    sync_consumers(kScoresWritten);  // P and dS are there.

    // [FA2 Alg.2 l.12]  dV = dV + Pᵀ dO_i
    if (wants_dv) issue_ab<T>(rdV, sP, key0, sdO[stage], col0);
    // [FA2 Alg.2 l.16]  dK = dK + dSᵀ Q_i
    if (wants_dk) issue_ab<T>(rdK, sdS, key0, sQ[stage], col0);
    // [FA2 Alg.2 l.15]  dS K_j    // (64, kWarpColumns) f32 per warpgroup, registers
    typename C::Dq::Registers rdQ;
    if (wants_dq) issue_atb<T>(rdQ, sdS, dq_query0, sK, dq_col0);
    ptx::wgmma_wait<0>();  // All products have ended: Q_i and dO_i have been read.
    if (lane == 0) ptx::mbarrier_arrive(&empty[stage]);

    // Hand dQ on.
    if (wants_dq) {
      ptx::mbarrier_wait(&storage.dq_empty, n % 2 ^ 1);  // TMA has read the previous tile.
#pragma unroll
      for (int m = 0; m < C::Dq::kWarpColumns / kMmaN; ++m) {
        store4(&storage.sdQ[C::Dq::index(consumer_warp, m, lane)],
               {rdQ[m][0], rdQ[m][1], rdQ[m][2], rdQ[m][3]});
      }
      ptx::fence_proxy_async();  // TMA will see what this thread has written.
      __syncwarp();              // All lanes have written and fenced.
      if (lane == 0) ptx::mbarrier_arrive(&storage.dq_full);
    }
  }
  mark_tile(nullptr, 0);
  sync_consumers(kProductsDone);  // All products have read K and V.

  // [FA2 Alg.2 l.18]  write dK_j, dV_j    // by way of this warp's part of sK and sV
  const int lane = opaque(thread) % 32u;
  const Part<kHeadDim> part(consumer);
  const int r0 = part.key0 + warp % kWarpgroupWarps * kMmaM;
  const auto write = [&](auto& tile, const typename C::Gradient& rG, float scale,
                         const Tensor& out) {
    store_rounded<T>(tile, r0, part.col0, rG, scale, lane);
    __syncwarp();  // The part is written before lanes read it in another order.
    write_rows<kMmaM, C::kGradientCols, 32>(rows<T>(out, b, h_kv), tile, r0, part.col0, j0,
                                            seq.num_keys, lane);
  };
  if (wants_dk) write(sK, rdK, p.softmax_scale, p.dk);
  if (wants_dv) write(sV, rdV, kSmallP, p.dv);
}  // [FA2 Alg.2 l.19-20]

}  // namespace cuflash::wgmma_backward
