// 12_warp_specialized: one warpgroup, the producer, only requests tiles; two others, the consumers,
// only compute, with the registers that the producer gives away.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/hopper.h"

namespace cuflash::warp_specialized {

// The shape of a block's work.
struct Shape {
  int keys;    // per tile
  int blocks;  // per SM
};
constexpr Shape shape(int head_dim) {
  switch (head_dim) {
    case 32:
      return {64, 2};  // 24 KB
    case 64:
      return {64, 2};  // 48 KB; S takes 32 registers, P 16, O 32
    case 96:
      return {128, 1};  // 120 KB
    case 128:
      return {128, 1};  // 160 KB; S takes 64 registers, P 32, O 64
    default:
      return {64, 1};  // 192 KB; O takes 128 registers
  }
}

template <int kHeadDim>
struct Config {
  static constexpr Shape kShape = shape(kHeadDim);
  static constexpr int kStages = 2;
  static constexpr int kConsumers = 2, kWarpgroups = 1 + kConsumers;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kBlockQ = kConsumers * kWgmmaM, kBlockKV = kShape.keys;
  // Registers of a thread: at launch, and when the producer has given its own away.
  static constexpr int kRegisters = 65536 / kShape.blocks / kThreads / 8 * 8;
  static constexpr int kProducerRegisters = 24;
  static constexpr int kConsumerRegisters =
      (kWarpgroups * kRegisters - kProducerRegisters) / kConsumers / 8 * 8;
  static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= kWarpgroups * kRegisters,
                "a block has no more registers than at launch, or setmaxnreg waits forever");
};

// The warpgroups of a block by what they do. The consumers are the last.
enum class WarpRole { kProducer, kConsumer };

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
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads, Config<kHeadDim>::kShape.blocks)
    attention(const __grid_constant__ ForwardParams p, const __grid_constant__ ForwardMaps maps) {
  using C = Config<kHeadDim>;
  using Storage = SharedStorage<T, kHeadDim>;
  constexpr int kKeySteps = C::kBlockKV / kWgmmaK;
  constexpr float kSlack = 8.f;  // O is rescaled when a term of P would exceed 2 to this power
  auto& storage = shared_storage<Storage>();
  auto& sQ = storage.sQ;
  auto &sK = storage.sK, &sV = storage.sV;
  auto &k_full = storage.k_full, &v_full = storage.v_full;
  auto &k_empty = storage.k_empty, &v_empty = storage.v_empty;

  // Find this block's head and queries, and this warp's role.
  const int thread = threadIdx.x, warp = uniform(thread / 32), warpgroup = warp / kWarpgroupWarps;
  const auto role = warpgroup == 0 ? WarpRole::kProducer : WarpRole::kConsumer;
  const Place place = place_of_block(p, num_tiles(p.seq_q, C::kBlockQ));
  const int b = place.batch, h = place.head, block = place.row;
  const int i0 = block * C::kBlockQ;  // [FA2 Alg.1 l.1-3]
  const Sequence seq = sequence(p, b);
  const int hk = uniform(kv_head(p, h));

  // Find the tiles of keys, and those of them that need no mask.
  const Range keys = visible_keys(seq, i0, i0 + C::kBlockQ);
  const Range full = keys_visible_to_all(seq, i0, i0 + C::kBlockQ);
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
  // row_max: m · scale_log2, to be subtracted in one instruction; row_sum: of this lane's columns
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {};
  const float scale_log2 = p.softmax_scale * kLog2e;

  ptx::mbarrier_wait(&storage.q_full, 0);  // Q has arrived.
  const auto take_tile = [&](auto masked) {
    constexpr bool kMasked = decltype(masked)::value;
    mark_tile("KV tile", tile);
    const int lane = opaque(thread) % 32u;
    const auto [stage, phase] = slot(tile);

    // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // (64, kBlockKV) f32 per warpgroup, registers
    ptx::mbarrier_wait(&k_full[stage], phase);  // K_j has arrived.
    MmaAccumulator::Registers rS[C::kBlockKV / kMmaN];
    issue_abt<T>(rS, sQ, consumer * kWgmmaM, sK[stage]);
    ptx::wgmma_wait<0>();  // S is there, and K_j has been read.
    if (lane == 0) ptx::mbarrier_arrive(&k_empty[stage]);

    // Mask the scores.
    if constexpr (kMasked) mask_scores(rS, seq, i0 + r0, tile * C::kBlockKV, lane);

    // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
    float tile_max[2];
    bool grew = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float x = fmaxf(rS[0][2 * r], rS[0][2 * r + 1]);
      for (const auto& s : rS) x = fmaxf(x, fmaxf(s[2 * r], s[2 * r + 1]));
      tile_max[r] = quad_max(x) * scale_log2;
      grew |= tile_max[r] - row_max[r] > kSlack;
    }
    // Rescale O and l, but only rows whose maximum has grown by more than the slack.
    if (__any_sync(0xffffffffu, grew)) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float old_max = row_max[r];
        if (tile_max[r] - old_max > kSlack) row_max[r] = tile_max[r];
        const float finite_max = kMasked && row_max[r] == -INFINITY ? 0.f : row_max[r];
        const float o_scale = ptx::exp2(old_max - finite_max);
        row_sum[r] *= o_scale;
        for (auto& o : rO) o[2 * r] *= o_scale, o[2 * r + 1] *= o_scale;
      }
    }
    MmaA::Registers rP[kKeySteps];  // the same lanes hold the same elements of S and P
#pragma unroll
    for (int k = 0; k < kKeySteps; ++k) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int r = e % 2;
        const auto& s = rS[2 * k + e / 2];
        const float finite_max = kMasked && row_max[r] == -INFINITY ? 0.f : row_max[r];
        const float x = ptx::exp2(fmaf(s[2 * r], scale_log2, -finite_max));
        const float y = ptx::exp2(fmaf(s[2 * r + 1], scale_log2, -finite_max));
        row_sum[r] += x;
        row_sum[r] += y;
        rP[k][e] = pack<T>(x, y);
      }
    }

    // [FA2 Alg.1 l.10]  O = o_scale · O + P V_j    // (64, kHeadDim) f32 per warpgroup, registers
    ptx::mbarrier_wait(&v_full[stage], phase);  // V_j has arrived.
    issue_ab<T>(rO, rP, sV[stage]);
    ptx::wgmma_wait<0>();  // O is there, and V_j has been read.
    if (lane == 0) ptx::mbarrier_arrive(&v_empty[stage]);
  };

  // [FA2 Alg.1 l.6, 11]  The diagonal and the tail, the tiles without a mask, the window's left
  // edge.
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
  mark_tile(nullptr, 0);

  // [FA2 Alg.1 l.12]  O = O / l    // into this warp's rows of sQ: its last product has read them
  const int lane = opaque(thread) % 32u;
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    row_sum[r] = quad_sum(row_sum[r]);
    inverse[r] = row_sum[r] > 0.f ? 1.f / row_sum[r] : 0.f;
  }
  store_rounded<T>(sQ, r0, 0, rO, inverse, lane);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int i = i0 + r0 + MmaAccumulator::row(lane, 2 * r);
    if (lane % 4 == 0 && i < seq.num_queries && p.lse != nullptr) {
      p.lse[row_index(p, b, h, i)] = row_max[r] * kLn2 + logf(row_sum[r]);  // [FA2 Alg.1 l.13, 15]
    }
  }
  __syncwarp();  // The warp's rows are written before its lanes read them in another order.

  // [FA2 Alg.1 l.14]  write O_i
  write_rows<kMmaM, kHeadDim, 32>(rows<T>(p.o, b, h), sQ, r0, 0, i0, seq.num_queries, lane);
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::warp_specialized
