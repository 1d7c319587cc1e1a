// 14_persistent: one block an SM stays and computes one tile of queries after the other. The next Q
// is requested meanwhile, and O is stored by TMA.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/hopper.h"
#include "work.cuh"

namespace cuflash::persistent {

// The shape of a block's work. There is one block on an SM.
struct Shape {
  int keys;       // a tile
  int consumers;  // warpgroups that compute, 64 queries each
  int stages;     // buffers of K and of V
  int q_stages;   // and of Q and O
};
constexpr Shape shape(int head_dim) {
  switch (head_dim) {
    case 32:
      return {128, 3, 3, 2};  // 72 KB
    case 64:
      return {128, 3, 3, 2};  // 144 KB; S takes 64 of a consumer's 160 registers, P 32, O 32
    case 96:
      return {96, 3, 3, 2};  // 180 KB; S takes 48, P 24, O 48
    case 128:
      return {64, 3, 3, 2};  // 192 KB; S takes 32, P 16, O 64
    default:
      return {64, 2, 2, 1};  // 192 KB; O takes 128 registers
  }
}

template <int kHeadDim>
struct Config {
  static constexpr Shape kShape = shape(kHeadDim);
  static constexpr int kStages = kShape.stages, kQStages = kShape.q_stages;
  static constexpr int kConsumers = kShape.consumers, kWarpgroups = 1 + kConsumers;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kBlockQ = kConsumers * kWgmmaM, kBlockKV = kShape.keys;
  static constexpr int kProducerRegisters = 24;  // of a thread
  static constexpr int kConsumerRegisters = consumer_registers(kConsumers, kProducerRegisters);
  // Named barriers of the first consumer: its turn, and that of its own warps. The next has the
  // next.
  static constexpr int kTurn = 1, kOwn = kTurn + kConsumers;
};

template <class T, int kHeadDim>
struct SharedStorage {
  using C = Config<kHeadDim>;
  using QTile = SwizzledTile<T, C::kBlockQ, kHeadDim>;
  using KVTile = SwizzledTile<T, C::kBlockKV, kHeadDim>;
  QTile sQ[C::kQStages];  // at the end of a tile, its O
  KVTile sK[C::kStages], sV[C::kStages];
  Work<C> work[C::kQStages];
  std::uint64_t q_full[C::kQStages];                       // and its work
  std::uint64_t k_full[C::kStages], v_full[C::kStages];    // a copy has arrived
  std::uint64_t o_full[C::kQStages][C::kConsumers];        // a consumer has written its O there
  std::uint64_t q_empty[C::kQStages];                      // O has been read from there
  std::uint64_t k_empty[C::kStages], v_empty[C::kStages];  // all consumers have read it
};

// A kernel's parameter, __grid_constant__.
struct Maps : ForwardMaps {
  TileMap o;  // boxes of a consumer's rows
};

// The columns below `end` of the two that a lane has in each block of 8, two bits a block.
__device__ __forceinline__ unsigned columns_below(int end) {
  const int clamped = min(max(end, 0), 128), bits = clamped / kMmaN * 2 + min(clamped % kMmaN, 2);
  return bits == 32 ? 0xffffffffu : (1u << bits) - 1;
}

// O = softmax(softmax_scale · Q Kᵀ) V. A block computes tiles of kBlockQ rows of O, one warpgroup
// 64 of them, a warp 16. Of these a lane holds parts of two rows, lane / 4 and lane / 4 + 8.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads, 1)
    attention(const __grid_constant__ ForwardParams p, const __grid_constant__ Maps maps,
              const __grid_constant__ Order order) {
  using C = Config<kHeadDim>;
  using Storage = SharedStorage<T, kHeadDim>;
  constexpr int kKeySteps = C::kBlockKV / kWgmmaK;
  // O is rescaled when a term of P would exceed 2 to the power of kSlack. Where no maximum is
  // taken, that is noticed when the terms of a lane add up to more than kMost, which f16 still
  // holds.
  constexpr float kSlack = 8.f, kMost = 16384.f;
  auto& storage = shared_storage<Storage>();
  auto& sQ = storage.sQ;
  auto &sK = storage.sK, &sV = storage.sV;
  auto &q_full = storage.q_full, &q_empty = storage.q_empty;
  auto& o_full = storage.o_full;
  auto &k_full = storage.k_full, &v_full = storage.v_full;
  auto &k_empty = storage.k_empty, &v_empty = storage.v_empty;

  // Find this warp's role.
  const int thread = threadIdx.x, warp = uniform(thread / 32), warpgroup = warp / kWarpgroupWarps;
  const auto role = warpgroup == 0 ? WarpRole::kProducer : WarpRole::kConsumer;

  // Begin the barriers.
  if (thread == 0) {
#pragma unroll
    for (int stage = 0; stage < C::kQStages; ++stage) {
      ptx::mbarrier_init(&q_full[stage], 1);
      ptx::mbarrier_init(&q_empty[stage], C::kConsumers);
#pragma unroll
      for (int c = 0; c < C::kConsumers; ++c) {
        ptx::mbarrier_init(&o_full[stage][c], kWarpgroupWarps);
      }
    }
#pragma unroll
    for (int stage = 0; stage < C::kStages; ++stage) {
      ptx::mbarrier_init(&k_full[stage], 1);
      ptx::mbarrier_init(&v_full[stage], 1);
      ptx::mbarrier_init(&k_empty[stage], C::kConsumers * kWarpgroupWarps);
      ptx::mbarrier_init(&v_empty[stage], C::kConsumers * kWarpgroupWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();  // The barriers have begun before a thread waits for one.

  // Both roles walk over the tiles of queries of this block, and for each from the last tile of
  // keys to the first.
  int taken = 0;  // tiles of keys, with all tiles of queries before this one

  if (role == WarpRole::kProducer) {
    ptx::setmaxnreg_dec<C::kProducerRegisters>();
    if (thread % 32 != 0) return;

    // Produce: one thread finds the work and requests all tiles.
    if (warp == 0) {
#pragma unroll 1
      for (int n = 0;; ++n) {  // [FA2 Alg.1 l.1-3]
        const auto [q, q_phase] = slot_of<C::kQStages>(n);
        ptx::mbarrier_wait(&q_empty[q], q_phase ^ 1);  // O has been read from there.
        Work<C>& work = storage.work[q];
        if (!find_work(work, p, order, n)) {
          ptx::mbarrier_arrive(&q_full[q]);
          return;
        }
        const int b = work.batch, h = work.head, hk = kv_head(p, h);
        request_tile(sQ[q], maps.q, work.i0, h, b, q_full[q]);
        const auto request_k = [&](int tile, int nth) {
          const auto [stage, phase] = slot_of<C::kStages>(nth);
          ptx::mbarrier_wait(&k_empty[stage], phase ^ 1);  // The consumers have read it.
          request_tile(sK[stage], maps.k, tile * C::kBlockKV, hk, b, k_full[stage]);
        };
        const Range tiles = work.tiles;
#pragma unroll 1
        for (int tile = tiles.end - 1; tile >= tiles.begin; --tile, ++taken) {
          if (tile == tiles.end - 1) request_k(tile, taken);
          if (tile > tiles.begin) request_k(tile - 1, taken + 1);  // It is needed before V.
          const auto [stage, phase] = slot_of<C::kStages>(taken);
          ptx::mbarrier_wait(&v_empty[stage], phase ^ 1);  // The consumers have read it.
          request_tile(sV[stage], maps.v, tile * C::kBlockKV, hk, b, v_full[stage]);
        }
      }
    }

    // Store: for each consumer one thread has TMA write its O, a panel a box.
    const int consumer = warp - 1, first = consumer * kWgmmaM;
    if (consumer >= 0 && consumer < C::kConsumers) {
      using QTile = typename Storage::QTile;
#pragma unroll 1
      for (int n = 0;; ++n) {
        const auto [q, q_phase] = slot_of<C::kQStages>(n);
        const Work<C>& work = storage.work[q];
        ptx::mbarrier_wait(&q_full[q], q_phase);  // The work is there.
        if (work.batch < 0) return;
        ptx::mbarrier_wait(&o_full[q][consumer], q_phase);  // The consumer has written its O.
        const int row = work.i0 + first;
#pragma unroll
        for (int panel = 0; panel < QTile::kPanels; ++panel) {
          // No row of the box exists.
          if (row < 0 || row >= sequence(p, work.batch).num_queries) continue;
          ptx::tensor_store(maps.o, panel * QTile::kPanelCols, row, work.head, work.batch,
                            sQ[q].panels[panel][first]);
        }
        ptx::tensor_store_commit();
        ptx::tensor_store_wait_read<0>();   // O has been read,
        ptx::mbarrier_arrive(&q_empty[q]);  // and the next Q may overwrite it.
      }
    }
    return;
  }

  // [FA2 Alg.1 l.4-7]  Q_i, K_j and V_j come from the producer; O = 0, l = 0, m = -inf
  ptx::setmaxnreg_inc<C::kConsumerRegisters>();
  const int consumer = warpgroup - 1, r0 = (warp - kWarpgroupWarps) * kMmaM;
  const float scale_log2 = p.softmax_scale * kLog2e;
  MmaAccumulator::Registers rO[kHeadDim / kMmaN];
  // row_max: m · scale_log2, to be subtracted in one instruction; row_sum: of this lane's columns
  float row_max[2], row_sum[2];
  MmaAccumulator::Registers rS[C::kBlockKV / kMmaN];  // the scores of a tile, and then its P in f32
  MmaA::Registers rP[kKeySteps];  // the same lanes hold the same elements of S and P
  bool rescale;                   // O, by
  float o_scale[2];
  int batch, head, i0;
  Range tiles = {};   // of keys, of the block
  KeyTiles own = {};  // of this consumer
  int tile;           // of keys
  int q;              // the buffer of Q
  const auto slot = [&](int of_tile) {
    return slot_of<C::kStages>(taken + tiles.end - 1 - of_tile);
  };

  // Consumer c waits for its turn at a barrier of its own, where the one before it arrives. All
  // have equally many turns.
  const auto wait_for_turn = [&] {
    ptx::named_barrier_sync(C::kTurn + consumer, 2 * kWarpgroupThreads);
  };
  const auto pass_turn = [&] {
    ptx::named_barrier_arrive(C::kTurn + (consumer + 1) % C::kConsumers, 2 * kWarpgroupThreads);
  };

  // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ, issued    // (64, kBlockKV) f32 a warpgroup, registers
  const auto issue_scores = [&](int stage) {
    issue_abt<T>(rS, sQ[q], consumer * kWgmmaM, sK[stage]);
  };

  // P = exp(S − max), still in f32, and the sums of this lane's terms
  const auto exponentials = [&](const float(&max)[2], float(&sum)[2]) {
    sum[0] = sum[1] = 0.f;
#pragma unroll
    for (int n = 0; n < C::kBlockKV / kMmaN; ++n) {
#pragma unroll
      for (int e = 0; e < MmaAccumulator::kElements; ++e) {
        rS[n][e] = ptx::exp2(fmaf(rS[n][e], scale_log2, -max[e / 2]));
        sum[e / 2] += rS[n][e];
      }
    }
  };

  // True if some of this consumer's queries do not see all keys of the tile.
  const auto needs_mask = [&] { return tile < own.no_mask.begin || tile >= own.no_mask.end; };

  // The scores of a tile become P. What O must be multiplied with is left in o_scale. The maximum
  // of a row grows if it may.
  const auto softmax = [&](bool masked, const bool(&may_grow)[2]) {
    // Mask the scores. Bit 2 n + e stands for element e of block n, in a row.
    if (masked) {
      const Sequence seq = sequence(p, batch);
      const int lane = opaque(thread) % 32u;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = i0 + r0 + MmaAccumulator::row(lane, 2 * r);
        const Range keys = visible_keys(seq, i, i + 1);
        const int j = tile * C::kBlockKV + MmaAccumulator::col(lane, 0);
        const unsigned shown = columns_below(keys.end - j) & ~columns_below(keys.begin - j);
#pragma unroll
        for (int n = 0; n < C::kBlockKV / kMmaN; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if ((shown >> (2 * n + e) & 1u) == 0) rS[n][2 * r + e] = -INFINITY;
          }
        }
      }
    }

    // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
    float tile_max[2];
    bool grew = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float x = fmaxf(rS[0][2 * r], rS[0][2 * r + 1]);
#pragma unroll
      for (int n = 1; n < C::kBlockKV / kMmaN; ++n) {
        x = fmaxf(x, fmaxf(rS[n][2 * r], rS[n][2 * r + 1]));
      }
      tile_max[r] = quad_max(x) * scale_log2;
      grew |= may_grow[r] && tile_max[r] - row_max[r] > kSlack;
    }
    // O and l will be rescaled, but only in rows whose maximum has grown by more than the slack.
    rescale = __any_sync(0xffffffffu, grew);
    float finite_max[2];  // also of a row that has seen no key
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float old_max = row_max[r];
      if (may_grow[r] && tile_max[r] - old_max > kSlack) row_max[r] = tile_max[r];
      finite_max[r] = row_max[r] == -INFINITY ? 0.f : row_max[r];
      if (rescale) {
        o_scale[r] = ptx::exp2(old_max - finite_max[r]);
        row_sum[r] *= o_scale[r];
      }
    }
    float tile_sum[2];
    exponentials(finite_max, tile_sum);
#pragma unroll
    for (int r = 0; r < 2; ++r) row_sum[r] += tile_sum[r];
  };

  // The same with the maximum so far, for a tile without a mask. False, and S is lost, if terms of
  // P are too large in some row of this warpgroup; may_grow then tells in which.
  const auto softmax_with_old_max = [&](bool(&may_grow)[2]) {
    float tile_sum[2];
    exponentials(row_max, tile_sum);
    const bool large[2] = {!(tile_sum[0] <= kMost), !(tile_sum[1] <= kMost)};  // or not a number
    const bool any =
        ptx::named_barrier_or(C::kOwn + consumer, kWarpgroupThreads, large[0] || large[1]);
    if (__any_sync(0xffffffffu, any)) {
#pragma unroll
      for (int r = 0; r < 2; ++r) may_grow[r] = quad_max(large[r] ? 1.f : 0.f) != 0.f;
      return false;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) row_sum[r] += tile_sum[r];
    rescale = false;
    return true;
  };

  const auto clear_output = [&] {
    for (auto& o : rO) {
      for (float& x : o) x = 0.f;
    }
  };

  // Waits for K_j of the next tile. Its branch keeps the exponentials above it: without one, the
  // compiler moves the wait for O above them.
  const auto wait_for_next_keys = [&] {
    if (tile == own.visible.begin) return;
    const auto [next, phase] = slot(tile - 1);
    ptx::mbarrier_wait(&k_full[next], phase);  // K has arrived.
  };

  // Rescales O and packs P: no product writes O or reads the P before any more.
  const auto finish_tile = [&] {
    if (rescale) {
#pragma unroll
      for (auto& o : rO) {
#pragma unroll
        for (int e = 0; e < MmaAccumulator::kElements; ++e) o[e] *= o_scale[e / 2];
      }
    }
    pack_operands<T>(rP, rS);
  };

  // [FA2 Alg.1 l.10]  O = o_scale · O + P V_j, issued    // (64, kHeadDim) f32, registers
  const auto issue_output = [&](int stage) { issue_ab<T>(rO, rP, sV[stage]); };

  // S of a tile beside O of the tile before it, and the softmax under the latter.
  const auto take_tile = [&](auto masked) {
    mark_tile("KV tile", tile);
    const int lane = opaque(thread) % 32u;
    const auto [stage, phase] = slot(tile);
    const auto [before, phase_before] = slot(tile + 1);
    ptx::mbarrier_wait(&v_full[before], phase_before);  // The V of the tile before has arrived.
    wait_for_turn();
    issue_scores(stage);
    issue_output(before);
    pass_turn();
    ptx::wgmma_wait<1>();  // S is there.
    bool may_grow[2] = {true, true};
    if constexpr (decltype(masked)::value) {
      softmax(true, may_grow);
    } else if (!softmax_with_old_max(may_grow)) {
      ptx::wgmma_wait<0>();
      issue_scores(stage);   // It was lost,
      ptx::wgmma_wait<0>();  // and is there again.
      softmax(false, may_grow);
    }
    if (lane == 0) ptx::mbarrier_arrive(&k_empty[stage]);  // K_j has been read.
    wait_for_next_keys();
    ptx::wgmma_wait<0>();  // O is there, and V has been read.
    if (lane == 0) ptx::mbarrier_arrive(&v_empty[before]);
    finish_tile();
  };

  // A tile that none of this consumer's queries sees.
  const auto skip_tile = [&] {
    const int lane = opaque(thread) % 32u;
    const auto [stage, phase] = slot(tile);
    wait_for_turn();
    pass_turn();
    ptx::mbarrier_wait(&k_full[stage], phase);  // The phase before has ended for all consumers.
    __syncwarp();                               // All lanes have seen that before one arrives.
    if (lane == 0) ptx::mbarrier_arrive(&k_empty[stage]);
    ptx::mbarrier_wait(&v_full[stage], phase);
    __syncwarp();  // The same for V.
    if (lane == 0) ptx::mbarrier_arrive(&v_empty[stage]);
  };

  if (consumer == C::kConsumers - 1) pass_turn();  // Consumer 0 has the first turn.
#pragma unroll 1
  for (int n = 0;; ++n) {
    const Slot q_slot = slot_of<C::kQStages>(n);
    q = q_slot.stage;
    ptx::mbarrier_wait(&q_full[q], q_slot.phase);  // Q has arrived.
    const Work<C>& work = storage.work[q];
    batch = uniform(work.batch);
    if (batch < 0) break;
    head = uniform(work.head), i0 = uniform(work.i0);
    tiles = uniform(work.tiles);
    own.visible = uniform(work.consumer[consumer].visible);
    own.no_mask = uniform(work.consumer[consumer].no_mask);
    tile = tiles.end - 1;
    for (int r = 0; r < 2; ++r) row_max[r] = -INFINITY, row_sum[r] = 0.f;
#pragma unroll 1
    for (; tile >= tiles.begin && tile >= own.visible.end; --tile) skip_tile();
    if (own.visible.begin < own.visible.end) {
      // The last tile, the diagonal or the tail, is the first: its S alone.
      mark_tile("KV tile", tile);
      const auto [first, first_phase] = slot(tile);
      ptx::mbarrier_wait(&k_full[first], first_phase);  // K_j has arrived.
      wait_for_turn();
      issue_scores(first);
      pass_turn();
      clear_output();
      ptx::wgmma_wait<0>();  // S is there, and K_j has been read.
      if (thread % 32 == 0) ptx::mbarrier_arrive(&k_empty[first]);
      softmax(needs_mask(), {true, true});
      rescale = false;  // O is still 0.
      wait_for_next_keys();
      finish_tile();
      --tile;

      // [FA2 Alg.1 l.6, 11]  What is left of the diagonal and the tail, the tiles without a mask,
      // the window's left edge.
      while (tile >= own.visible.begin) {
#pragma unroll 1
        for (; tile >= own.visible.begin && needs_mask(); --tile) take_tile(std::true_type{});
#pragma unroll 1
        for (; tile >= own.visible.begin && !needs_mask(); --tile) take_tile(std::false_type{});
      }

      // The first tile is the last: its O alone.
      const auto [last, last_phase] = slot(own.visible.begin);
      ptx::mbarrier_wait(&v_full[last], last_phase);  // V_j has arrived.
      wait_for_turn();
      issue_output(last);
      pass_turn();
      ptx::wgmma_wait<0>();  // O is there, and V_j has been read.
      if (thread % 32 == 0) ptx::mbarrier_arrive(&v_empty[last]);
    } else {
      clear_output();
      wait_for_turn();
      pass_turn();
    }
#pragma unroll 1
    for (; tile >= tiles.begin; --tile) skip_tile();
    taken += tiles.end - tiles.begin;
    mark_tile(nullptr, 0);

    // [FA2 Alg.1 l.12]  O = O / l    // into this warp's rows of sQ: its last product has read them
    const int lane = opaque(thread) % 32u;
    for (float& sum : row_sum) sum = quad_sum(sum);  // of the row
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = r0 + MmaAccumulator::row(lane, 2 * r);
      const float inverse = row_sum[r] > 0.f ? 1.f / row_sum[r] : 0.f;
#pragma unroll
      for (int n = 0; n < kHeadDim / kMmaN; ++n) {
        *reinterpret_cast<std::uint32_t*>(&sQ[q](row, n * kMmaN + MmaAccumulator::col(lane, 0))) =
            pack<T>(rO[n][2 * r] * inverse, rO[n][2 * r + 1] * inverse);
      }
    }
    // [FA2 Alg.1 l.14]  write O_i    // by one of the producer's warps
    ptx::fence_proxy_async();  // The store sees what this thread has written,
    __syncwarp();              // and its lanes.
    if (lane == 0) ptx::mbarrier_arrive(&o_full[q][consumer]);
    // [FA2 Alg.1 l.13, 15]  write L_i = m + log l    // while O leaves
    const int num_queries = sequence(p, batch).num_queries;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = i0 + r0 + MmaAccumulator::row(lane, 2 * r);
      if (lane % 4 == 0 && i >= 0 && i < num_queries && p.lse != nullptr) {
        p.lse[row_index(p, batch, head, i)] = row_max[r] * kLn2 + logf(row_sum[r]);
      }
    }
  }
  if (consumer == 0) wait_for_turn();  // The last turn comes back.
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::persistent
