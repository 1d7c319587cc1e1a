// 16_overlapped_backward: the backward pass by wgmma. A block takes one tile of keys after the
// other. Its producer has Q and dO of tile after tile copied by TMA, two consumers compute the five
// products, a thread has TMA add what they get for dQ to global memory, in f32, and two warps
// prepare and round such sums of other heads.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/index.h"
#include "device/matrix_descriptor.h"
#include "device/ptx/exp2.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/named_barrier.h"
#include "device/ptx/setmaxnreg.h"
#include "device/ptx/unpack.h"
#include "device/ptx/wgmma.h"
#include "device/registers.h"
#include "device/tile_map.h"
#include "device/tile_mark.h"
#include "device/tile_requests.h"
#include "device/vector.h"
#include "shape.cuh"
#include "work.cuh"

namespace cuflash::overlapped_backward {

// The warpgroups of a block by what they do. The consumers are the last.
enum class WarpRole { kProducer, kConsumer };
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
  using KVTile = SwizzledTile<T, C::kOwned, kHeadDim>;
  using QTile = SwizzledTile<T, C::kStreamed, kHeadDim>;
  using ScoreTile = SwizzledTile<T, C::kOwned, C::kStreamed>;
  KVTile sK, sV;
  QTile sQ[C::kStages], sdO[C::kStages];
  ScoreTile sdS[2];  // dSᵀ, by turns
  union Out {        // what leaves the block, by turns
    float dq[C::Dq::kFloats];
    KVTile gradient;  // dK or dV
  } out[2];
  alignas(16) float s_lse[C::kStages][C::kStreamed], s_delta[C::kStages][C::kStreamed];
  Piece pieces[2];                                    // by turns
  std::uint64_t kv_full, kv_empty;                    // a piece, K and V; all have read them
  std::uint64_t full[C::kStages], empty[C::kStages];  // a tile has arrived; consumers have read it
  std::uint64_t ds_full;                              // both consumers have written sdS
  std::uint64_t out_full[2], out_empty[2];            // both have written `out`; TMA has read it
};

// A kernel's parameter, __grid_constant__.
struct BackwardMaps {
  TensorMap q, k, v, d_o, dk, dv;
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

// The elements of accumulators, rounded, as left operands. The same lanes hold the same elements.
template <class T, int kOperands, int kFragments>
__device__ __forceinline__ void pack_operand(MmaA::Registers (&a)[kOperands],
                                             const float (&r)[kFragments][4]) {
#pragma unroll
  for (int k = 0; k < kOperands; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const auto& s = r[2 * k + e / 2];
      a[k][e] = pack<T>(opaque(s[e % 2 * 2]), opaque(s[e % 2 * 2 + 1]));
    }
  }
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
template <class T, int kHeadDim>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads, 1)
    gradients(const __grid_constant__ BackwardParams p, const __grid_constant__ DqWorkspace work,
              const __grid_constant__ BackwardMaps maps,
              const __grid_constant__ Schedule schedule) {
  using C = BackwardConfig<kHeadDim>;
  using Storage = BackwardStorage<T, kHeadDim>;
  constexpr int kSteps = kHeadDim / kWgmmaK;
  auto& storage = shared_storage<Storage>();
  auto &sK = storage.sK, &sV = storage.sV;
  auto &sQ = storage.sQ, &sdO = storage.sdO;
  auto& sdS = storage.sdS;
  auto& out = storage.out;
  auto &full = storage.full, &empty = storage.empty;
  auto &out_full = storage.out_full, &out_empty = storage.out_empty;
  const bool wants_dq = p.dq.data != nullptr;

  // Begin the barriers, and find this warp's role.
  const int thread = threadIdx.x, warp = cuflash::uniform(thread / 32),
            warpgroup = warp / kWarpgroupWarps;
  const auto role = warpgroup == 0 ? WarpRole::kProducer : WarpRole::kConsumer;
  if (thread == 0) {
    ptx::mbarrier_init(&storage.kv_full, 3);  // two copies, and the thread that wrote the piece
    ptx::mbarrier_init(&storage.kv_empty, C::kWarps + 3);  // and the producer's other warps
#pragma unroll
    for (int stage = 0; stage < C::kStages; ++stage) {
      ptx::mbarrier_init(&full[stage], 2 + 32);  // two copies, and a warp that copies rows itself
      ptx::mbarrier_init(&empty[stage], C::kWarps);
    }
    ptx::mbarrier_init(&storage.ds_full, C::kWarps);
#pragma unroll
    for (int turn = 0; turn < 2; ++turn) {
      ptx::mbarrier_init(&out_full[turn], C::kWarps);
      ptx::mbarrier_init(&out_empty[turn], 1);
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
        return piece_of<kHeadDim>(p, schedule, __shfl_sync(0xffffffffu, n, 0));
      };
      Piece piece = take();  // [FA2 Alg.2 l.1-3]
      int taken = 0;         // tiles of queries, of all pieces
#pragma unroll 1
      for (int nth = 0;; ++nth) {  // [FA2 Alg.2 l.5]
        const auto request_kv = [&] {
          ptx::mbarrier_wait(&storage.kv_empty, nth % 2 ^ 1);  // All have read the piece before.
          if (lane == 0) {
            storage.pieces[nth % 2] = piece;
            ptx::mbarrier_arrive(&storage.kv_full);
            request_tile(sK, maps.k, piece.j0, piece.kv_head, piece.batch, storage.kv_full);
            request_tile(sV, maps.v, piece.j0, piece.kv_head, piece.batch, storage.kv_full);
          }
        };
        if (piece.number < 0) {
          ptx::mbarrier_wait(&storage.kv_empty, nth % 2 ^ 1);  // All have read the piece before.
          if (lane == 0) storage.pieces[nth % 2] = piece;
          __syncwarp();                                          // It is there,
          if (lane < 3) ptx::mbarrier_arrive(&storage.kv_full);  // and no copy is to come.
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

    // The other warps follow piece after piece. Each arrives at kv_empty when it has read one, so
    // that the producer may go on.
    const auto next_piece = [&](int nth) {
      ptx::mbarrier_wait(&storage.kv_full, nth % 2);  // The piece is there.
      return storage.pieces[nth % 2];
    };
    const QueueCounts counts = queue_counts(work, schedule);
    // In a fixed order a tile may have to wait for its turn while the next one is added: then there
    // is a thread for each buffer. Otherwise one is enough.
    const int num_keepers = keepers(work.any_order), adders = 3 - num_keepers;

    // Add: one thread has TMA add dQ, and write dV and dK.
    if (warp <= adders) {
      if (lane != 0) return;
      int handed = 0;  // to TMA, of all pieces
      const auto is_mine = [&](int n) { return adders == 1 || n % 2 == warp - 1; };
#pragma unroll 1
      for (int nth = 0;; ++nth) {
        const Piece piece = next_piece(nth);
        if (piece.number < 0) return;
        ptx::mbarrier_arrive(&storage.kv_empty);
        const int queue = schedule.queue(piece.number);
        if (wants_dq && schedule.zeroed(queue) > 0) {
          ptx::block_count_wait(&counts.zeroed[queue], num_keepers * schedule.zeroed(queue));
          ptx::fence_proxy_async_global();  // TMA adds to zeros that threads have written.
        }
        const Sequence seq = sequence(p, piece.batch);
        Step at(piece);
#pragma unroll 1
        for (int n = 0; n < piece.num_steps; ++n, at.advance()) {
          const auto [turn, phase] = slot_of<2>(handed);
          if (!is_mine(handed++)) continue;
          ptx::mbarrier_wait(&out_full[turn], phase);  // The consumers have written dQ.
          if (wants_dq) {
            const unsigned others =
                adds_before(seq, at.tile * C::kStreamed, C::kStreamed, piece.j0, C::kOwned);
            add_to_dq(work, tile_index(piece, at), others, out[turn].dq);
          }
          ptx::mbarrier_arrive(&out_empty[turn]);
        }
        const auto store = [&](const TensorMap& map, bool wanted) {
          const auto [turn, phase] = slot_of<2>(handed);
          if (!is_mine(handed++)) return;
          ptx::mbarrier_wait(&out_full[turn], phase);  // The consumers have written it.
          if (wanted) {
            using Tile = typename Storage::KVTile;
#pragma unroll
            for (int panel = 0; panel < Tile::kPanels; ++panel) {
              ptx::tensor_store(map, panel * Tile::kPanelCols, piece.j0, piece.kv_head, piece.batch,
                                out[turn].gradient.panels[panel]);
            }
            ptx::tensor_store_commit();
            ptx::tensor_store_wait_read<0>();
          }
          ptx::mbarrier_arrive(&out_empty[turn]);
        };
        store(maps.dv, p.dv.data != nullptr);
        store(maps.dk, p.dk.data != nullptr);
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
      if (lane == 0) ptx::mbarrier_arrive(&storage.kv_empty);
      if (!wants_dq) continue;
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
  const int consumer = warpgroup - 1, warp_of_all = warp - kWarpgroupWarps;
  const float scale_log2 = p.softmax_scale * kLog2e;
  const auto part = [&] { return Part<kHeadDim>(opaque(consumer)); };
  unsigned n = 0;  // tiles of queries, of all pieces

#pragma unroll 1
  for (unsigned nth = 0;; ++nth) {
    n = cuflash::uniform(n), nth = cuflash::uniform(nth);
    ptx::mbarrier_wait(&storage.kv_full, nth % 2);  // The piece is there, and K and V have arrived.
    const unsigned odd = cuflash::uniform(nth % 2);
    const Piece piece = uniform(storage.pieces[nth % 2]);
    if (piece.number < 0) return;
    const int j0 = piece.j0;
    const unsigned end = n + piece.num_steps;
    const Sequence seq = sequence(p, piece.batch);
    Step at(piece);
    typename C::Gradient rdK = {}, rdV = {};  // (64, kHeadDim) f32 a warpgroup, registers

    // A consumer waits for its turn at a barrier of its own, where the other arrives.
    const auto wait_for_turn = [&] {
      ptx::named_barrier_sync(kTurn + consumer, 2 * kWarpgroupThreads);
    };
    const auto pass_turn = [&] {
      ptx::named_barrier_arrive(kTurn + (consumer ^ 1), 2 * kWarpgroupThreads);
    };

    // dS K_j of the nth tile, issued    // (64, kWarpColumns) f32 a warpgroup, registers
    const auto issue_dq = [&](typename C::Dq::Registers& rdQ, unsigned n) {
      const auto [key0, dq_row0, dq_col0] = part();
      ptx::mbarrier_wait(&storage.ds_full, n % 2);  // Both consumers have written their part of dS.
      ptx::wgmma_fence();                           // sdQ has been written from these registers.
#pragma unroll
      for (int k = 0; k < C::kOwned / kWgmmaK; ++k) {
        ptx::wgmma_m64k16<T, ptx::Major::kMN, ptx::Major::kMN>(
            rdQ, mn_major(sdS[n % 2], kWgmmaK * k, dq_row0), mn_major(sK, kWgmmaK * k, dq_col0),
            k > 0);
      }
      ptx::wgmma_commit();
    };
    // Hands on to TMA what `write` writes. A piece hands on dQ of each tile, then dV and dK.
    const auto hand_on = [&](unsigned n, const auto& write) {
      const int lane = opaque(thread) % 32u;
      const unsigned turn = n % 2, phase = (n / 2 + odd) % 2;
      ptx::mbarrier_wait(&out_empty[turn], phase ^ 1);  // TMA has read what was there.
      write(out[turn], lane);
      ptx::fence_proxy_async();  // TMA reads what this thread has written,
      __syncwarp();              // and its lanes.
      if (lane == 0) ptx::mbarrier_arrive(&out_full[turn]);
    };
    const auto hand_on_dq = [&](unsigned n, const typename C::Dq::Registers& rdQ) {
      hand_on(n, [&](auto& to, int lane) {
#pragma unroll
        for (int m = 0; m < C::Dq::kWarpColumns / kMmaN; ++m) {
          store4(&to.dq[C::Dq::index(warp_of_all, m, lane)],
                 {rdQ[m][0], rdQ[m][1], rdQ[m][2], rdQ[m][3]});
        }
      });
    };
    const auto hand_on_gradient = [&](unsigned n, const typename C::Gradient& rG, float scale) {
      hand_on(n, [&](auto& to, int lane) {
        store_rounded<T>(to.gradient, opaque(warp_of_all) * kMmaM, 0, rG, scale, lane);
      });
    };

    // The five products of the nth tile of queries, but dQ of the tile before.
    const auto tile_of_queries = [&](auto is_first, unsigned n) {  // [FA2 Alg.2 l.8, 17]
      constexpr bool kFirst = decltype(is_first)::value;
      mark_tile("Q tile", at.tile);
      const int lane = opaque(thread) % 32u;
      const int key0 = part().key0;
      const int r0 = key0 + opaque(warp) % kWarpgroupWarps * kMmaM;  // this warp's keys
      const auto [stage, phase] = slot_of<C::kStages>(n);
      const int i0 = at.tile * C::kStreamed;

      // [FA2 Alg.2 l.9-10]  Q_i, dO_i come from the producer; Sᵀ = K_j Q_iᵀ    // (64, kStreamed)
      ptx::mbarrier_wait(&full[stage], phase);  // Q_i, dO_i, LSE_i and delta_i have arrived.
      typename C::Scores rS;
      ptx::wgmma_fence();  // P of the tile before has been packed from these registers.
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        ptx::wgmma_m64k16<T, ptx::Major::kK>(rS, k_major(sK, key0, kWgmmaK * k),
                                             k_major(sQ[stage], 0, kWgmmaK * k), k > 0);
      }
      ptx::wgmma_commit();

      // [FA2 Alg.2 l.13]  dPᵀ = V_j dO_iᵀ, issued    // (64, kStreamed) f32 a warpgroup, registers
      typename C::Scores rdP;
      ptx::wgmma_fence();  // dS has been packed from these registers.
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        ptx::wgmma_m64k16<T, ptx::Major::kK>(rdP, k_major(sV, key0, kWgmmaK * k),
                                             k_major(sdO[stage], 0, kWgmmaK * k), k > 0);
      }
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();  // S is there.
      wait_for_turn();

      // Mask the scores.
      if (!all_visible(seq, i0, C::kStreamed, j0, C::kOwned)) {
#pragma unroll
        for (int m = 0; m < C::kStreamed / kMmaN; ++m) {
#pragma unroll
          for (int e = 0; e < MmaAccumulator::kElements; ++e) {
            const int j = j0 + r0 + MmaAccumulator::row(lane, e);
            const int i = i0 + m * kMmaN + MmaAccumulator::col(lane, e);
            if (j >= seq.num_keys || !visible(seq, i, j)) rS[m][e] = -INFINITY;
          }
        }
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
      pack_operand<T>(rA, rS);

      // [FA2 Alg.2 l.12]  dV = dV + Pᵀ dO_i, issued
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < C::kStreamed / kWgmmaK; ++k) {
        ptx::wgmma_m64k16<T, ptx::Major::kMN>(rdV, rA[k], mn_major(sdO[stage], kWgmmaK * k), true);
      }
      ptx::wgmma_commit();
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
      // Nobody waits for a turn behind the last one.
      if (consumer == 0 || n + 1 < end) pass_turn();
      ptx::wgmma_wait<0>();  // No product reads P any more.
      pack_operand<T>(rA, rdP);

      // [FA2 Alg.2 l.16]  dK = dK + dSᵀ Q_i, issued
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < C::kStreamed / kWgmmaK; ++k) {
        ptx::wgmma_m64k16<T, ptx::Major::kMN>(rdK, rA[k], mn_major(sQ[stage], kWgmmaK * k), true);
      }
      ptx::wgmma_commit();

      // [FA2 Alg.2 l.15]  dS K_j of the tile before: the other consumer has had time to write dS
      typename C::Dq::Registers rdQ;
      if constexpr (!kFirst) {
        issue_dq(rdQ, n - 1);
      }

      // Give the other consumer this one's rows of dS: dQ is a sum over all keys.
#pragma unroll
      for (int k = 0; k < C::kStreamed / kWgmmaK; ++k) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          pair(sdS[n % 2], r0 + MmaA::row(lane, 2 * e), k * kWgmmaK + MmaA::col(lane, 2 * e)) =
              rA[k][e];
        }
      }
      ptx::fence_proxy_async();  // Products read what this thread has written,
      ptx::wgmma_wait<0>();      // dK and dQ are there; Q_i, dO_i and the older dS have been read.
      __syncwarp();              // and its lanes.
      if (lane == 0) {
        ptx::mbarrier_arrive(&storage.ds_full);
        ptx::mbarrier_arrive(&empty[stage]);
      }
      if constexpr (!kFirst) hand_on_dq(n - 1, rdQ);
      at.advance();
    };

    // Stream the queries of each head that shares the KV head.
    if (n < end) {
      if (consumer == 1) pass_turn();  // The first consumer begins.
      tile_of_queries(std::true_type{}, n++);
#pragma unroll 1
      for (; n < end; ++n) tile_of_queries(std::false_type{}, n);
      typename C::Dq::Registers rdQ;
      issue_dq(rdQ, n - 1);
      ptx::wgmma_wait<0>();  // The last dQ is there.
      hand_on_dq(n - 1, rdQ);
    }
    mark_tile(nullptr, 0);
    __syncwarp();  // All lanes have read the piece, and products K and V.
    if (opaque(thread) % 32u == 0) ptx::mbarrier_arrive(&storage.kv_empty);

    // [FA2 Alg.2 l.18]  write dK_j, dV_j    // by way of TMA
    hand_on_gradient(n, rdV, kSmallP);
    hand_on_gradient(n + 1, rdK, p.softmax_scale);
  }
}  // [FA2 Alg.2 l.19-20]

}  // namespace cuflash::overlapped_backward
