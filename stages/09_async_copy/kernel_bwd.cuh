// 09_async_copy, backward: five products in one kernel. A block owns keys and streams queries past
// them; what it adds to dQ goes to global memory in f32.
#pragma once

#include <cmath>
#include <type_traits>

#include "device/mask_scores.h"
#include "workspace.cuh"

namespace cuflash::async_copy {

// Which gradients a kernel computes: all, those that are not null, or of these dV or the others.
enum class Gradients { kAll, kGiven, kOnlyValue, kNotValue };

// A step of a block's walk over tiles of queries: those of one head after the other.
struct Step {
  int first, end;  // the tiles of a head
  int head, tile;

  __device__ __forceinline__ Step next() const {
    const bool last = tile + 1 == end;
    return {first, end, head + last, last ? first : tile + 1};
  }
  __device__ __forceinline__ Step previous() const {
    const bool at_first = tile == first;
    return {first, end, head - at_first, at_first ? end - 1 : tile - 1};
  }
};

// rS = X Yᵀ for kWarpKeys rows of X, from r0 on, and a part of the tile Y.
// (kWarpKeys, kPart) f32, registers
template <class T, int kHeadDim, class XTile, class YTile>
__device__ __forceinline__ void score_product(typename BackwardConfig<kHeadDim>::Scores& rS,
                                              XTile& sX, YTile& sY, int r0, int part, int thread) {
  using C = BackwardConfig<kHeadDim>;
  const int lane = opaque(thread) % 32u;  // Its addresses, found again, hold no registers.
  const Chunks lane_X(sX, r0 + LoadA::row(lane), LoadA::col(lane));
  const Chunks lane_Y(sY, LoadBTransposed::row(lane), LoadBTransposed::col(lane));
#pragma unroll
  for (int m = 0; m < C::kStrips; ++m) {
#pragma unroll
    for (int n = 0; n < C::kPart / kMmaN; ++n) {
      for (float& s : rS[m][n]) s = 0.f;
    }
  }
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    MmaA::Registers rX[C::kStrips];
#pragma unroll
    for (int m = 0; m < C::kStrips; ++m) ptx::ldmatrix_x4(rX[m], lane_X(m, k));
#pragma unroll
    for (int n = 0; n < C::kPart / 16; ++n) {
      std::uint32_t rY[4];  // of 16 queries
      ptx::ldmatrix_x4(rY, lane_Y(part * (C::kPart / 16) + n, k));
#pragma unroll
      for (int m = 0; m < C::kStrips; ++m) {
        ptx::mma_m16n8k16<T>(rS[m][2 * n], rX[m], {rY[0], rY[1]});
        ptx::mma_m16n8k16<T>(rS[m][2 * n + 1], rX[m], {rY[2], rY[3]});
      }
    }
  }
}

// rG += W Y for the weights of a part, in registers, and that part of the tile Y.
// (kWarpKeys, kHeadDim) f32, registers
template <class T, int kHeadDim, class YTile>
__device__ __forceinline__ void gradient_product(typename BackwardConfig<kHeadDim>::Gradient& rG,
                                                 typename BackwardConfig<kHeadDim>::Operand& rW,
                                                 YTile& sY, int part, int thread) {
  using C = BackwardConfig<kHeadDim>;
  const int lane = opaque(thread) % 32u;  // Its addresses, found again, hold no registers.
  const Chunks lane_Y(sY, LoadB::row(lane), LoadB::col(lane));
#pragma unroll
  for (int k = 0; k < C::kPart / 16; ++k) {
#pragma unroll
    for (int n = 0; n < kHeadDim / 16; ++n) {
      std::uint32_t rY[4];  // of 16 columns
      ptx::ldmatrix_x4_trans(rY, lane_Y(part * (C::kPart / 16) + k, n));
#pragma unroll
      for (int m = 0; m < C::kStrips; ++m) {
        ptx::mma_m16n8k16<T>(rG[m][2 * n], rW[k][m], {rY[0], rY[1]});
        ptx::mma_m16n8k16<T>(rG[m][2 * n + 1], rW[k][m], {rY[2], rY[3]});
      }
    }
  }
}

// dK = softmax_scale · dSᵀ Q and dV = Pᵀ dO, summed over the query heads that share the KV head,
// and dS K, added to dQ. A block computes kOwned rows of dK and dV at a time.
template <class T, int kHeadDim, Gradients kGradients>
__global__ void __launch_bounds__(BackwardConfig<kHeadDim>::kThreads,
                                  BackwardConfig<kHeadDim>::kShape.blocks)
    gradients(const __grid_constant__ BackwardParams p, const __grid_constant__ Workspace work) {
  using C = BackwardConfig<kHeadDim>;
  constexpr int kPartSteps = C::kPart / 16;
  constexpr bool kAll = kGradients == Gradients::kAll;
  auto& storage = shared_storage<BackwardStorage<T, kHeadDim>>();
  auto &sK = storage.sK, &sV = storage.sV;
  auto &sQ = storage.sQ, &sdO = storage.sdO;
  auto& sdS = storage.sdS;

  // Find this block's KV head and tensors, and this warp's keys and part of dQ.
  const int thread = threadIdx.x, warp = uniform(thread / 32);
  const int group = p.heads_q / p.heads_kv, r0 = warp * C::kWarpKeys;
  const int q0 = warp % C::kShape.dq_warps * C::kDqRows;
  const int d0 = warp / C::kShape.dq_warps * C::kDqCols;
  const float scale_log2 = p.softmax_scale * kLog2e;
  const bool wants_dv = kAll || (kGradients != Gradients::kNotValue && p.dv.data != nullptr);
  const bool wants_dk = kAll || (kGradients != Gradients::kOnlyValue && p.dk.data != nullptr);
  const bool wants_dq = kAll || (kGradients != Gradients::kOnlyValue && p.dq.data != nullptr);

  // Walk over the tiles of keys of this split, back and forth: splits get as much work where a
  // mask lets the tiles see different numbers of queries.
  for (int round = 0;; ++round) {
    // Find the KV head, the keys and the tiles of queries that see some of them.
    const Place place =
        uniform(unravel(opaque(blockIdx.x), p.heads_kv, work.splits, 1));  // [FA2 Alg.2 l.1-3]
    const int b = place.batch, h_kv = place.head, split = place.row;
    const Sequence seq = sequence(p, b);
    const int block = round * work.splits + (round % 2 == 0 ? split : work.splits - 1 - split);
    const int j0 = block * C::kOwned;  // [FA2 Alg.2 l.5]
    if (j0 >= seq.num_keys) break;
    const Range queries = visible_queries(seq, j0, j0 + C::kOwned);
    const bool some = queries.end > queries.begin;
    const int first_tile = queries.begin / C::kStreamed;
    const int end_tile = some ? (queries.end - 1) / C::kStreamed + 1 : first_tile;
    const int num_steps = (end_tile - first_tile) * group;
    Step at = {first_tile, end_tile, h_kv * group, first_tile};

    // Requests Q_i, dO_i, LSE_i, delta_i.
    const auto tile_index = [&](const Step& s) {
      return (std::int64_t{uniform(opaque(b))} * p.heads_q + s.head) * work.q_tiles + s.tile;
    };
    const auto request_queries = [&](const Step& s, int to) {
      const int i0 = s.tile * C::kStreamed, batch = opaque(b), head = opaque(s.head);
      request_tile<C::kThreads>(sQ[to], rows<const T>(p.q, batch, head), i0, seq.num_queries,
                                thread);
      request_tile<C::kThreads>(sdO[to], rows<const T>(p.d_o, batch, head), i0, seq.num_queries,
                                thread);
      constexpr unsigned kVectors = C::kStreamed / 4;
      const unsigned n = opaque(thread), of_row = n % kVectors * 4;
      const std::int64_t row = tile_index(s) * C::kStreamed + of_row;
      if (n < kVectors) ptx::cp_async_16(&storage.s_lse[to][of_row], work.lse + row);
      if (n / kVectors == 1) ptx::cp_async_16(&storage.s_delta[to][of_row], work.delta + row);
    };

    // dQ_i = dQ_i + dS K_j of the step s    // (kDqRows, kDqCols) f32 a warp, registers
    const auto add_to_dq = [&](const Step& s, int stage) {
      const std::int64_t slice = split % work.slices;
      float* to =
          work.dq + ((slice * work.all_tiles + tile_index(s)) * C::kWarps + warp) * C::kDqPart;
      const int lane = opaque(thread) % 32u;
      typename C::QueryGradient rdQ = {};
      const Chunks lane_dS(sdS[stage], LoadATransposed::row(lane),
                           opaque(q0) + LoadATransposed::col(lane));
      const Chunks lane_K(sK, LoadB::row(lane), opaque(d0) + LoadB::col(lane));
#pragma unroll
      for (int k = 0; k < C::kOwned / 16; ++k) {
        MmaA::Registers rdS[C::kDqRows / kMmaM];
#pragma unroll
        for (int m = 0; m < C::kDqRows / kMmaM; ++m) {
          ptx::ldmatrix_x4_trans(rdS[m], lane_dS(k, m));
        }
#pragma unroll
        for (int n = 0; n < C::kDqCols / 16; ++n) {
          std::uint32_t rK[4];  // of 16 columns
          ptx::ldmatrix_x4_trans(rK, lane_K(k, n));
#pragma unroll
          for (int m = 0; m < C::kDqRows / kMmaM; ++m) {
            ptx::mma_m16n8k16<T>(rdQ[m][2 * n], rdS[m], {rK[0], rK[1]});
            ptx::mma_m16n8k16<T>(rdQ[m][2 * n + 1], rdS[m], {rK[2], rK[3]});
          }
        }
      }
      // Add the warp's part of dQ.
      for (const auto& strip : rdQ) {
        for (const auto& fragment : strip) {
          ptx::red_add(to, lane, fragment);
          to += kMmaM * kMmaN;
        }
      }
    };

    // [FA2 Alg.2 l.6-9]  load K_j, V_j and the first Q_i, dO_i, LSE_i, delta_i; dK = 0, dV = 0
    __syncthreads();  // All threads have read K and V of the previous round.
    request_tile<C::kThreads>(sK, rows<const T>(p.k, b, h_kv), j0, seq.num_keys, thread);
    request_tile<C::kThreads>(sV, rows<const T>(p.v, b, h_kv), j0, seq.num_keys, thread);
    if (num_steps > 0) request_queries(at, 0);
    ptx::cp_async_commit();
    typename C::Gradient rdK = {}, rdV = {};

    const auto take_tile = [&](auto masked, int step) {
      constexpr bool kMasked = decltype(masked)::value;
      const int stage = step % 2, lane = opaque(thread) % 32u;
      const int i0 = at.tile * C::kStreamed;
      if (wants_dq && (!kMasked || step > 0)) add_to_dq(at.previous(), stage ^ 1);
#pragma unroll 1
      for (int part = 0; part < C::kStreamed / C::kPart; ++part) {
        const int first = part * C::kPart;
        // [FA2 Alg.2 l.10]  Sᵀ = K_j Q_iᵀ
        typename C::Scores rS;
        score_product<T, kHeadDim>(rS, sK, sQ[stage], r0, part, thread);
        // Mask the scores.
        if constexpr (kMasked) {
#pragma unroll
          for (int m = 0; m < C::kStrips; ++m) {
            mask_transposed_scores(rS[m], seq, j0 + r0 + m * kMmaM, i0 + first, lane);
          }
        }

        // [FA2 Alg.2 l.11]  P = exp(S − LSE)
        typename C::Operand rP;  // holds 2^kLog2OfP · P
#pragma unroll
        for (int n = 0; n < C::kPart / kMmaN; ++n) {
          const float2 lse = *reinterpret_cast<const float2*>(
              &storage.s_lse[stage][first + n * kMmaN + MmaAccumulator::col(lane, 0)]);
#pragma unroll
          for (int m = 0; m < C::kStrips; ++m) {
#pragma unroll
            for (int e = 0; e < MmaAccumulator::kElements; ++e) {
              float& s = rS[m][n][e];
              s = ptx::exp2(fmaf(s, scale_log2, e % 2 == 0 ? -lse.x : -lse.y));
            }
          }
        }
#pragma unroll
        for (int k = 0; k < kPartSteps; ++k) {
#pragma unroll
          for (int m = 0; m < C::kStrips; ++m) {
            to_operand<T>(rP[k][m], rS[m][2 * k], rS[m][2 * k + 1]);
          }
        }

        // [FA2 Alg.2 l.12]  dV = dV + Pᵀ dO_i
        if (wants_dv) gradient_product<T, kHeadDim>(rdV, rP, sdO[stage], part, thread);
        if (!wants_dk && !wants_dq) continue;

        // [FA2 Alg.2 l.13-14]  dPᵀ = V_j dO_iᵀ, dS = P ∘ (dP − delta)
        typename C::Scores rdP;
        score_product<T, kHeadDim>(rdP, sV, sdO[stage], r0, part, thread);
        typename C::Operand rdS;
#pragma unroll
        for (int n = 0; n < C::kPart / kMmaN; ++n) {
          const int c = first + n * kMmaN + MmaAccumulator::col(lane, 0);
          const float2 delta = *reinterpret_cast<const float2*>(&storage.s_delta[stage][c]);
#pragma unroll
          for (int m = 0; m < C::kStrips; ++m) {
#pragma unroll
            for (int e = 0; e < MmaAccumulator::kElements; e += 2) {
              const int of_operand = n % 2 * 2 + e / 2;
              const float2 prob = unpack<T>(rP[n / 2][m][of_operand]);
              const float* dp = &rdP[m][n][e];
              const std::uint32_t ds = pack<T>(prob.x * fmaf(dp[0], kSmallP, -delta.x),
                                               prob.y * fmaf(dp[1], kSmallP, -delta.y));
              rdS[n / 2][m][of_operand] = ds;
              const int r = r0 + m * kMmaM + MmaAccumulator::row(lane, e);
              *reinterpret_cast<std::uint32_t*>(&sdS[stage](r, c)) = ds;
            }
          }
        }

        // [FA2 Alg.2 l.15-16]  dK = dK + dSᵀ Q_i; dS K_j is added to dQ_i a step later
        if (wants_dk) gradient_product<T, kHeadDim>(rdK, rdS, sQ[stage], part, thread);
      }
    };

    // [FA2 Alg.2 l.8, 17]  Stream the queries of each head that shares the KV head.
#pragma unroll 1
    for (int step = 0; step < num_steps; ++step, at = at.next()) {
      mark_tile("Q tile", at.tile);
      ptx::cp_async_wait<0>();
      __syncthreads();  // All threads see this tile and the previous tile's dS, and have read
                        // what is overwritten now.
      if (step + 1 < num_steps) request_queries(at.next(), (step + 1) % 2);
      ptx::cp_async_commit();
      const int i0 = at.tile * C::kStreamed;
      if (step > 0 && all_visible(seq, i0, C::kStreamed, j0, C::kOwned)) {
        take_tile(std::false_type{}, step);
      } else {
        take_tile(std::true_type{}, step);
      }
    }
    mark_tile(nullptr, 0);
    ptx::cp_async_wait<0>();
    __syncthreads();  // dS of the last tile is written; where there is no tile, V has arrived.
    if (wants_dq && num_steps > 0) add_to_dq(at.previous(), (num_steps - 1) % 2);

    // [FA2 Alg.2 l.18]  write dK_j, dV_j    // by way of the rows of sV that this warp alone reads
    const int lane = opaque(thread) % 32u;
    if (wants_dk) {
      store_rounded<T>(sV, r0, 0, rdK, p.softmax_scale, lane);
      __syncwarp();  // The rows are written before lanes read them in another order.
      write_rows<C::kWarpKeys, kHeadDim, 32>(rows<T>(p.dk, b, h_kv), sV, r0, 0, j0, seq.num_keys,
                                             lane);
      __syncwarp();  // The rows of dK are read before dV overwrites them.
    }
    if (wants_dv) {
      store_rounded<T>(sV, r0, 0, rdV, kSmallP, lane);
      __syncwarp();  // The rows are written before lanes read them in another order.
      write_rows<C::kWarpKeys, kHeadDim, 32>(rows<T>(p.dv, b, h_kv), sV, r0, 0, j0, seq.num_keys,
                                             lane);
    }
  }
}  // [FA2 Alg.2 l.19-20]

}  // namespace cuflash::async_copy
