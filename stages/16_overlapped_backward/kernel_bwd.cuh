// 16_overlapped_backward: the backward pass by wgmma. A block takes one tile of keys after the
// other. Its producer has Q and dO of tile after tile copied by TMA, two consumers compute the five
// products without a break, a thread has TMA add what they get for dQ to global memory, in f32, and
// two warps prepare and round such sums of other heads.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/hopper.h"
#include "device/ptx/unpack.h"
#include "device/vector.h"
#include "shape.cuh"
#include "work.cuh"

namespace cuflash::overlapped_backward {

// The gradients that a kernel computes, as a sum: those that are not null.
constexpr int kDq = 1, kDk = 2, kDv = 4;

// It is the first consumer's turn. The next has the next barrier.
constexpr int kTurn = 1;

// What a block computes next: a tile of keys, and the tiles of queries that see some of its keys,
// in each head that shares the KV head.
struct Piece {
  int number;  // negative: no more
  int batch, kv_head, j0;
  int head;        // the first that shares the KV head
  int first, end;  // tiles of queries
  int num_steps;   // over the tiles of all these heads
};

template <class T, int kHeadDim>
struct BackwardStorage {
  using C = BackwardConfig<kHeadDim>;
  using KTile = SwizzledTile<T, C::kOwned, kHeadDim>;
  using VTile = SwizzledTile<T, kWgmmaM, kHeadDim>;  // a consumer's rows
  using QTile = SwizzledTile<T, C::kStreamed, kHeadDim>;
  using ScoreTile = SwizzledTile<T, C::kOwned, C::kStreamed>;
  KTile sK[2];              // of two pieces
  VTile sV[C::kConsumers];  // of one
  QTile sQ[C::kStages], sdO[C::kStages];
  ScoreTile sdS[2];  // dSᵀ, by turns
  // What is to be added.
  alignas(128) float sdQ[C::kConsumers][C::Dq::kFloats / C::kConsumers];
  alignas(16) float s_lse[C::kStages][C::kStreamed], s_delta[C::kStages][C::kStreamed];
  Piece pieces[2];
  // A piece and K have arrived; all have read them. The same for V, and for a tile of Q and dO.
  std::uint64_t k_full[2], k_empty[2];
  std::uint64_t v_full[C::kConsumers], v_empty[C::kConsumers];
  std::uint64_t full[C::kStages], empty[C::kStages];
  std::uint64_t ds_full;  // both consumers have written sdS
  // A consumer has written sdQ; TMA has read it.
  std::uint64_t dq_full[C::kConsumers], dq_empty[C::kConsumers];
};

// A kernel's parameter, __grid_constant__.
struct BackwardMaps {
  TileMap q, k, v, d_o;
};

__device__ __forceinline__ Piece uniform(const Piece& piece) {
  return {cuflash::uniform(piece.number),  cuflash::uniform(piece.batch),
          cuflash::uniform(piece.kv_head), cuflash::uniform(piece.j0),
          cuflash::uniform(piece.head),    cuflash::uniform(piece.first),
          cuflash::uniform(piece.end),     cuflash::uniform(piece.num_steps)};
}

// A step of a block's walk over tiles of queries: those of one head after the other.
struct Step {
  int first, end;  // the tiles of a head
  int head, tile;

  __device__ __forceinline__ explicit Step(const Piece& piece)
      : first(piece.first), end(piece.end), head(piece.head), tile(first) {}
  __device__ __forceinline__ void advance() {
    const bool last = tile + 1 == end;
    head += last;
    tile = last ? first : tile + 1;
  }
};

// A consumer's part of each product.
template <int kHeadDim>
struct Part {
  using C = BackwardConfig<kHeadDim>;
  int key0;              // rows of S, dP, dK and dV
  int dq_row0, dq_col0;  // rows and columns of dQ

  __device__ __forceinline__ explicit Part(int consumer)
      : key0(consumer * kWgmmaM),
        dq_row0(C::Dq::kByRows ? consumer * kWgmmaM : 0),
        dq_col0(C::Dq::kByRows ? 0 : consumer * C::Dq::kWarpColumns) {}
};

// Two neighbours in a row of a tile, as one register.
template <class Tile>
__device__ __forceinline__ std::uint32_t& pair(Tile& tile, int row, int col) {
  return *reinterpret_cast<std::uint32_t*>(&tile(row, col));
}

// The next piece of work of this block.
template <int kHeadDim>
__device__ __forceinline__ Piece piece_of(const BackwardParams& p, const Schedule& schedule,
                                          int n) {
  using C = BackwardConfig<kHeadDim>;
  Piece piece = {};
  piece.number = -1;
  if (n >= schedule.pieces()) return piece;
  const KeyTile at = schedule.at(n);
  piece.number = n;
  piece.batch = at.head / p.heads_kv, piece.kv_head = at.head % p.heads_kv;
  piece.j0 = nth_tile(p, schedule.tiles, at.tile) * C::kOwned;
  const int group = p.heads_q / p.heads_kv;
  piece.head = piece.kv_head * group;
  const Range queries = visible_queries(sequence(p, piece.batch), piece.j0, piece.j0 + C::kOwned);
  piece.first = queries.begin / C::kStreamed;
  piece.end = queries.end > queries.begin ? (queries.end - 1) / C::kStreamed + 1 : piece.first;
  piece.num_steps = (piece.end - piece.first) * group;
  return piece;
}

// dK = softmax_scale · dSᵀ Q and dV = Pᵀ dO, summed over the query heads that share the KV head,
// and dS K, added to dQ. A block computes pieces of kOwned rows of dK and dV.
template <class T, int kHeadDim, int kGradients>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads, 1)
    gradients(const __grid_constant__ BackwardParams p, const __grid_constant__ DqWorkspace work,
              const __grid_constant__ BackwardMaps maps,
              const __grid_constant__ Schedule schedule) {
  using C = BackwardConfig<kHeadDim>;
  using Storage = BackwardStorage<T, kHeadDim>;
  constexpr bool kWantsDq = (kGradients & kDq) != 0, kWantsDk = (kGradients & kDk) != 0;
  constexpr bool kWantsDv = (kGradients & kDv) != 0, kWantsDs = kWantsDq || kWantsDk;
  auto& storage = shared_storage<Storage>();
  auto& sK = storage.sK;
  auto& sV = storage.sV;
  auto &sQ = storage.sQ, &sdO = storage.sdO;
  auto& sdS = storage.sdS;
  auto& sdQ = storage.sdQ;
  auto &full = storage.full, &empty = storage.empty;
  auto &k_full = storage.k_full, &k_empty = storage.k_empty;
  auto &v_full = storage.v_full, &v_empty = storage.v_empty;
  auto &dq_full = storage.dq_full, &dq_empty = storage.dq_empty;

  // Begin the barriers, and find this warp's role.
  const int thread = threadIdx.x, warp = cuflash::uniform(thread / 32),
            warpgroup = warp / kWarpgroupWarps;
  const auto role = warpgroup == 0 ? WarpRole::kProducer : WarpRole::kConsumer;
  if (thread == 0) {
#pragma unroll
    for (int slot = 0; slot < 2; ++slot) {
      ptx::mbarrier_init(&k_full[slot], 2);  // the copy, and the thread that wrote the piece
      ptx::mbarrier_init(&k_empty[slot], C::kWarps + 3);  // and the producer's other warps
    }
#pragma unroll
    for (int stage = 0; stage < C::kStages; ++stage) {
      ptx::mbarrier_init(&full[stage], 2 + 32);  // two copies, and a warp that copies rows itself
      ptx::mbarrier_init(&empty[stage], C::kWarps);
    }
    ptx::mbarrier_init(&storage.ds_full, C::kWarps);
#pragma unroll
    for (int consumer = 0; consumer < C::kConsumers; ++consumer) {
      ptx::mbarrier_init(&v_full[consumer], 1);
      ptx::mbarrier_init(&v_empty[consumer], kWarpgroupWarps);
      ptx::mbarrier_init(&dq_full[consumer], kWarpgroupWarps);
      ptx::mbarrier_init(&dq_empty[consumer], 1);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();  // The barriers have begun before a thread waits for one.

  if (role == WarpRole::kProducer) {
    ptx::setmaxnreg_dec<C::kProducerRegisters>();
    const int lane = thread % 32;
    const auto tile_index = [&](const Piece& piece, const Step& at) {
      return (std::int64_t{piece.batch} * p.heads_q + at.head) * work.q_tiles + at.tile;
    };

    // Produce: one warp takes pieces, and requests K and V, and all tiles of Q and dO, with their
    // LSE and delta.
    if (warp == 0) {
      const auto take = [&] {
        int n = 0;
        if (lane == 0) n = static_cast<int>(atomicAdd(work.next, 1u));
        return uniform(piece_of<kHeadDim>(p, schedule, __shfl_sync(0xffffffffu, n, 0)));
      };
      Piece piece = take();  // [FA2 Alg.2 l.1-3]
      int taken = 0;         // tiles of queries, of all pieces
#pragma unroll 1
      for (int nth = 0;; ++nth) {  // [FA2 Alg.2 l.5]
        const int slot = nth % 2, phase = nth / 2 % 2;
        const auto request_kv = [&] {
          ptx::mbarrier_wait(&k_empty[slot], phase ^ 1);  // All have read what was there.
          if (lane == 0) {
            storage.pieces[slot] = piece;
            ptx::mbarrier_arrive(&k_full[slot]);
            request_tile(sK[slot], maps.k, piece.j0, piece.kv_head, piece.batch, k_full[slot]);
          }
#pragma unroll
          for (int consumer = 0; consumer < C::kConsumers; ++consumer) {
            ptx::mbarrier_wait(&v_empty[consumer], nth % 2 ^ 1);  // The consumer has read V.
            if (lane == 0) {
              request_tile(sV[consumer], maps.v, piece.j0 + consumer * kWgmmaM, piece.kv_head,
                           piece.batch, v_full[consumer]);
            }
          }
        };
        if (piece.number < 0) {
          ptx::mbarrier_wait(&k_empty[slot], phase ^ 1);  // All have read what was there.
          if (lane == 0) storage.pieces[slot] = piece;
          if (lane < 2) ptx::mbarrier_arrive(&k_full[slot]);  // once in place of a copy
          return;
        }
        if (piece.num_steps == 0) request_kv();
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
          const std::int64_t row = tile_index(piece, at) * C::kStreamed;
#pragma unroll
          for (int r = 4 * lane; r < C::kStreamed; r += 128) {
            *reinterpret_cast<float4*>(&storage.s_lse[stage][r]) =
                *reinterpret_cast<const float4*>(&work.lse[row + r]);
            *reinterpret_cast<float4*>(&storage.s_delta[stage][r]) =
                *reinterpret_cast<const float4*>(&work.delta[row + r]);
          }
          ptx::mbarrier_arrive(&full[stage]);
          if (n == 0) request_kv();
        }
        piece = take();
      }
    }

    // The other warps follow piece after piece. Each arrives at k_empty when it has read one, so
    // that the producer may go on.
    const auto next_piece = [&](int nth) {
      const auto [slot, phase] = slot_of<2>(nth);
      ptx::mbarrier_wait(&k_full[slot], phase);  // The piece is there.
      return storage.pieces[slot];
    };
    const QueueCounts counts = queue_counts(work, schedule);
    // In a fixed order a tile may have to wait for its turn: then there is a thread for each
    // consumer. Otherwise one is enough.
    const int num_keepers = keepers(work.any_order), adders = 3 - num_keepers;

    // Add: one thread has TMA add dQ.
    if (warp <= adders) {
      if (lane != 0) return;
      const int first = adders == 1 ? 0 : warp - 1, last = adders == 1 ? C::kConsumers : warp;
      int added = 0;  // tiles of queries, of all pieces
#pragma unroll 1
      for (int nth = 0;; ++nth) {
        const Piece piece = next_piece(nth);
        if (piece.number < 0) return;
        ptx::mbarrier_arrive(&k_empty[nth % 2]);
        if constexpr (!kWantsDq) continue;
        const int queue = schedule.queue(piece.number);
        if (schedule.zeroed(queue) > 0) {
          ptx::block_count_wait(&counts.zeroed[queue], num_keepers * schedule.zeroed(queue));
          ptx::fence_proxy_async_global();  // TMA adds to zeros that threads have written.
        }
        const Sequence seq = sequence(p, piece.batch);
        Step at(piece);
#pragma unroll 1
        for (int n = 0; n < piece.num_steps; ++n, at.advance()) {
          const unsigned phase = added++ % 2;
          const unsigned others =
              adds_before(seq, at.tile * C::kStreamed, C::kStreamed, piece.j0, C::kOwned);
#pragma unroll 1
          for (int consumer = first; consumer < last; ++consumer) {
            const std::int64_t share = C::kConsumers * tile_index(piece, at) + consumer;
            // Add this half's terms in turn.
            wait_to_add(work, share, others);
            ptx::mbarrier_wait(&dq_full[consumer], phase);  // The consumer has written dQ.
            add_to_dq(work, share, sdQ[consumer]);
            ptx::mbarrier_arrive(&dq_empty[consumer]);
            let_next_add(work, share);
          }
        }
        ptx::tensor_store_wait<0>();  // The sums have been written before others learn of it.
        ptx::block_count_add(&counts.added[queue]);
      }
    }

    // Keep: the other warps write the zeros of a later share of dQ, and round an earlier one.
    const int keeper = warp - 1 - adders;
#pragma unroll 1
    for (int nth = 0;; ++nth) {
      const int n = next_piece(nth).number;
      __syncwarp();  // All lanes have read it.
      if (n < 0) return;
      if (lane == 0) ptx::mbarrier_arrive(&k_empty[nth % 2]);
      if constexpr (!kWantsDq) continue;
      const int later = n + schedule.lead, earlier = n - schedule.lag;
      if (later < schedule.pieces()) {
        zero_parts<typename C::Dq>(work, schedule.share(later), schedule.share(later + 1),
                                   32 * keeper + lane, 32 * num_keepers);
        ptx::fence_proxy_async_global();  // TMA adds to what this thread has written,
        __syncwarp();                     // and its lanes.
        if (lane == 0) ptx::block_count_add(&counts.zeroed[schedule.queue(later)]);
      }
      if (earlier >= 0) {
        const int queue = schedule.queue(earlier);
        if (lane == 0) {
          ptx::block_count_wait(&counts.added[queue], adders * schedule.length(queue));
        }
        __syncwarp();  // All lanes may read the sums.
        const int end = schedule.share(earlier + 1);
#pragma unroll 1
        for (int part = schedule.share(earlier) + keeper; part < end; part += num_keepers) {
          round_part<T, typename C::Dq>(p, work, part, lane);
        }
      }
    }
  }

  // [FA2 Alg.2 l.6-7]  K_j and V_j come from the producer; dK = 0, dV = 0
  ptx::setmaxnreg_inc<C::kConsumerRegisters>();
  const int consumer = warpgroup - 1;
  const float scale_log2 = p.softmax_scale * kLog2e;
  const auto part = [&] { return Part<kHeadDim>(opaque(consumer)); };
  unsigned n = 0;     // tiles of queries, of all pieces
  bool late = false;  // dQ of the last of them is still to come

  // A consumer waits for its turn at a barrier of its own, where the other arrives.
  const auto wait_for_turn = [&] {
    ptx::named_barrier_sync(kTurn + consumer, 2 * kWarpgroupThreads);
  };
  const auto pass_turn = [&] {
    ptx::named_barrier_arrive(kTurn + (consumer ^ 1), 2 * kWarpgroupThreads);
  };
  if (consumer == 1) pass_turn();  // The first consumer begins.

  // dS K_j of the nth tile, issued    // (64, kWarpColumns) f32 a warpgroup, registers
  const auto issue_dq = [&](typename C::Dq::Registers& rdQ, unsigned n, unsigned slot) {
    const auto [key0, dq_row0, dq_col0] = part();
    ptx::mbarrier_wait(&storage.ds_full, n % 2);  // Both consumers have written their part of dS.
    issue_atb<T>(rdQ, sdS[n % 2], dq_row0, sK[slot], dq_col0);
  };
  // Hands dQ on to the thread that adds it.
  const auto hand_on_dq = [&](unsigned n, const typename C::Dq::Registers& rdQ) {
    const int lane = opaque(thread) % 32u;
    ptx::mbarrier_wait(&dq_empty[consumer], n % 2 ^ 1);  // TMA has read what was there.
#pragma unroll
    for (int m = 0; m < C::Dq::kWarpColumns / kMmaN; ++m) {
      store4(&sdQ[consumer][C::Dq::index(warp % kWarpgroupWarps, m, lane)],
             {rdQ[m][0], rdQ[m][1], rdQ[m][2], rdQ[m][3]});
    }
    ptx::fence_proxy_async();  // TMA reads what this thread has written,
    __syncwarp();              // and its lanes.
    if (lane == 0) ptx::mbarrier_arrive(&dq_full[consumer]);
  };

#pragma unroll 1
  for (unsigned nth = 0;; ++nth) {
    n = cuflash::uniform(n), nth = cuflash::uniform(nth);
    const unsigned slot = cuflash::uniform(nth % 2);
    ptx::mbarrier_wait(&k_full[slot], nth / 2 % 2);  // The piece is there, and K has arrived.
    const Piece piece = uniform(storage.pieces[slot]);
    // Finish what is late, if no tile follows.
    if (piece.num_steps == 0 && late) {
      if constexpr (kWantsDq) {
        typename C::Dq::Registers rdQ;
        issue_dq(rdQ, n - 1, slot ^ 1);
        ptx::wgmma_wait<0>();  // The last dQ is there.
        hand_on_dq(n - 1, rdQ);
      }
      if (opaque(thread) % 32u == 0) ptx::mbarrier_arrive(&k_empty[slot ^ 1]);
      late = false;
    }
    if (piece.number < 0) {
      if (consumer == 0) wait_for_turn();  // One turn is left over.
      return;
    }
    const int j0 = piece.j0;
    const unsigned begin = n, end = n + piece.num_steps;
    const Sequence seq = sequence(p, piece.batch);
    Step at(piece);
    typename C::Gradient rdK = {}, rdV = {};  // (64, kHeadDim) f32 a warpgroup, registers

    // The five products of the nth tile of queries, but dQ of the tile before.
    const auto tile_of_queries = [&](auto is_first, unsigned n) {  // [FA2 Alg.2 l.8, 17]
      constexpr bool kFirst = decltype(is_first)::value;
      constexpr bool kIssuesDq = kWantsDq && !kFirst;
      mark_tile("Q tile", at.tile);
      const int lane = opaque(thread) % 32u;
      const int key0 = part().key0;
      const int r0 = key0 + opaque(warp) % kWarpgroupWarps * kMmaM;  // this warp's keys
      const auto [stage, phase] = slot_of<C::kStages>(n);
      const int i0 = at.tile * C::kStreamed;

      // [FA2 Alg.2 l.9-10]  Q_i, dO_i come from the producer; Sᵀ = K_j Q_iᵀ    // (64, kStreamed)
      ptx::mbarrier_wait(&full[stage], phase);  // Q_i, dO_i, LSE_i and delta_i have arrived.
      typename C::Scores rS;
      issue_abt<T>(rS, sK[slot], key0, sQ[stage]);

      // [FA2 Alg.2 l.13]  dPᵀ = V_j dO_iᵀ, issued    // (64, kStreamed) f32 a warpgroup, registers
      ptx::mbarrier_wait(&v_full[consumer], nth % 2);  // V has arrived.
      [[maybe_unused]] typename C::Scores rdP;
      if constexpr (kWantsDs) issue_abt<T>(rdP, sV[consumer], 0, sdO[stage]);
      ptx::wgmma_wait<kWantsDs>();  // S is there.
      wait_for_turn();

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
      if constexpr (kWantsDv) issue_ab<T>(rdV, rA, sdO[stage]);
      if constexpr (kWantsDs) ptx::wgmma_wait<kWantsDv>();  // dP is there.
      if ((n + 1 == end) & (lane == 0)) {
        ptx::mbarrier_arrive(&v_empty[consumer]);
      }

      // [FA2 Alg.2 l.14]  dS = P ∘ (dP − delta)
      if constexpr (kWantsDs) {
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
      }
      pass_turn();
      if constexpr (kWantsDs) {
        if constexpr (kWantsDv) ptx::wgmma_wait<0>();  // No product reads P any more.
        pack_operands<T>(rA, rdP);
      }

      // [FA2 Alg.2 l.16]  dK = dK + dSᵀ Q_i, issued
      if constexpr (kWantsDk) issue_ab<T>(rdK, rA, sQ[stage]);

      // [FA2 Alg.2 l.15]  dS K_j of the tile before: the other consumer has had time to write dS
      [[maybe_unused]] typename C::Dq::Registers rdQ;
      if constexpr (kIssuesDq) issue_dq(rdQ, n - 1, cuflash::uniform(slot ^ (n == begin)));

      // Give the other consumer this one's rows of dS: dQ is a sum over all keys.
      if constexpr (kWantsDq) {
#pragma unroll
        for (int k = 0; k < C::kStreamed / kWgmmaK; ++k) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            pair(sdS[n % 2], r0 + MmaA::row(lane, 2 * e), k * kWgmmaK + MmaA::col(lane, 2 * e)) =
                rA[k][e];
          }
        }
      }
      ptx::fence_proxy_async();  // Products read what this thread has written, and its lanes.
      // dK and dQ are there; Q_i, dO_i and the older dS have been read.
      if constexpr (kWantsDk || kIssuesDq || !kWantsDs) ptx::wgmma_wait<0>();
      __syncwarp();
      if (lane == 0) {
        if constexpr (kWantsDq) ptx::mbarrier_arrive(&storage.ds_full);
        ptx::mbarrier_arrive(&empty[stage]);
      }
      if (!kFirst && (lane == 0) & (n == begin)) ptx::mbarrier_arrive(&k_empty[slot ^ 1]);
      if constexpr (kIssuesDq) hand_on_dq(n - 1, rdQ);
      at.advance();
    };

    // Stream the queries of each head that shares the KV head.
    if (n < end) {
      if (!late) tile_of_queries(std::true_type{}, n++);
      late = true;
      n = cuflash::uniform(n);
#pragma unroll 1
      for (; n < end; ++n) tile_of_queries(std::false_type{}, n);
    }
    mark_tile(nullptr, 0);

    // [FA2 Alg.2 l.18]  write dK_j, dV_j
    const auto write = [&](const Tensor& gradient, const typename C::Gradient& rG, float scale) {
      const Piece& piece = storage.pieces[opaque(slot)];
      const int lane = opaque(thread) % 32u;
      const int j =
          j0 + part().key0 + opaque(warp) % kWarpgroupWarps * kMmaM + MmaAccumulator::row(lane, 0);
      T* const to =
          &rows<T>(gradient, piece.batch, piece.kv_head)(j, lane % kWrittenTogether * kMmaN);
#pragma unroll
      for (int m = 0; m < kHeadDim / kMmaN; m += kWrittenTogether) {
        float4 r[kWrittenTogether];
#pragma unroll
        for (int f = 0; f < kWrittenTogether; ++f) {
          r[f] = {rG[m + f][0], rG[m + f][1], rG[m + f][2], rG[m + f][3]};
        }
        write_rounded(to + m * kMmaN, gradient.row_stride, seq.num_keys - j, r, scale, lane);
      }
    };
    if constexpr (kWantsDv) write(p.dv, rdV, kSmallP);
    if constexpr (kWantsDk) write(p.dk, rdK, p.softmax_scale);
    if (piece.num_steps == 0) {
      ptx::mbarrier_wait(&v_full[consumer], nth % 2);  // V, which nobody needs, has arrived.
      __syncwarp();                                    // All lanes have read the piece.
      if (opaque(thread) % 32u == 0) {
        ptx::mbarrier_arrive(&v_empty[consumer]);
        ptx::mbarrier_arrive(&k_empty[slot]);
      }
    }
  }
}  // [FA2 Alg.2 l.19-20]

}  // namespace cuflash::overlapped_backward
