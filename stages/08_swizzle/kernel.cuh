// 08_swizzle, forward: an XOR of row and column lays out the tiles, so that no padding keeps the
// banks apart. The bytes won hold larger tiles and a second buffer of K and V.
#pragma once

#include <cmath>
#include <cstdint>

#include "device/constants.h"
#include "device/index.h"
#include "device/mma_fragments.h"
#include "device/ptx/exp2.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mma.h"
#include "device/registers.h"
#include "device/shared_memory.h"
#include "device/tensor.h"
#include "device/tiles.h"

namespace cuflash::swizzle {

template <int kHeadDim>
struct Config {
  static constexpr int kStrips = 2;  // of 16 queries: both use each operand that the warp loads
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kWarpQ = kMmaM * kStrips;         // queries that a warp computes
  static constexpr int kBlockQ = kWarpQ * kWarps;        // queries that a block computes
  static constexpr int kBlockKV = 64;                    // keys of one tile
  static constexpr int kPart = kHeadDim > 64 ? 32 : 64;  // keys weighed at a time
  static constexpr int kBlocks = 2;                      // an SM: a thread has up to 255 registers
  static_assert(kBlockKV % kPart == 0 && kPart % kMmaK == 0, "kBlockKV is a multiple of kPart");
};

// A tile without padding: panels of 64 columns, one after the other, with rows of 128 bytes, which
// are 8 chunks of 16. Chunk c of row r lies in place c ^ (r % 8): bits 4 to 6 of the address are
// XORed with bits 7 to 9. So the same chunk of 8 rows, which ldmatrix reads, lies in all 32 banks.
// With 32 columns two rows fill the banks, and share the twist, the number that is XORed.
template <class T, int kRows, int kCols>
struct Swizzled {
  static constexpr int kPanelCols = kCols % 64 == 0 ? 64 : 32;
  static_assert(kRows % 8 == 0 && kCols % kPanelCols == 0, "the pattern ends where the tile does");
  T panels[kCols / kPanelCols][kRows][kPanelCols];

  // Where element (row, col) lies, counted in elements. The elements of a chunk are contiguous.
  __host__ __device__ static constexpr int index(unsigned row, unsigned col) {
    const unsigned twist = kPanelCols == 64 ? row % 8 : row / 2 % 4;
    const unsigned chunk = (col % kPanelCols / 8) ^ twist;
    return (col / kPanelCols * kRows + row) * kPanelCols + chunk * 8 + col % 8;
  }

  // Takes the index of an element in one of the first 16 columns. Returns the index of the element
  // 16 · down rows below it and 16 · right columns to its right. Rows 16 apart have the same twist.
  // In a panel the chunk's number c, 0 or 1, grows by an even number. So c + 2 right is
  // c ^ (2 right), and as XORs commute, the twist need not be known.
  __host__ __device__ static constexpr int step(int index, int down, int right) {
    constexpr int kSteps = kPanelCols / 16;
    return (index ^ (right % kSteps * 16)) + (right / kSteps * kRows + down * 16) * kPanelCols;
  }

  __device__ __forceinline__ T& operator()(int row, int col) {
    return (&panels[0][0][0])[index(row, col)];
  }
};

// True if each chunk has a place of its own, step() leads to it, and the chunks that ldmatrix reads
// at a time lie in the 8 places that make up the banks.
template <int kRows, int kCols>
constexpr bool is_sound() {
  using Tile = Swizzled<std::uint16_t, kRows, kCols>;
  bool taken[kRows * kCols / 8] = {};
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kCols; col += 8) {
      const int here = Tile::index(row, col);
      if (taken[here / 8] ||
          here != Tile::step(Tile::index(row % 16, col % 16), row / 16, col / 16))
        return false;
      taken[here / 8] = true;
      unsigned places = 0;
      for (int r = 0; r < 8; ++r) places |= 1u << Tile::index(row / 8 * 8 + r, col) / 8 % 8;
      if (places != 0xff) return false;
    }
  }
  return true;
}
static_assert(is_sound<32, 32>() && is_sound<32, 64>() && is_sound<32, 128>(), "no bank conflicts");

// The chunks that a lane names to ldmatrix: (row, col) with col < 16, and those that lie multiples
// of 16 rows and columns from it. The lane keeps one index. Where `down` and `right` are constants,
// an XOR leads to each column of a panel, and all else is a constant in the instruction.
template <class T, int kRows, int kCols>
class Chunks {
 public:
  using Tile = Swizzled<T, kRows, kCols>;
  __device__ __forceinline__ Chunks(Tile& tile, int row, int col)
      : tile_(&tile), index_(Tile::index(row, col)) {}
  __device__ __forceinline__ ptx::SharedAddress operator()(int down, int right) const {
    return tile_ + static_cast<int>(sizeof(T)) * Tile::step(index_, down, right);
  }

 private:
  ptx::SharedAddress tile_;
  int index_;
};

template <class T, int kHeadDim>
struct SharedStorage {
  using C = Config<kHeadDim>;
  using QTile = Swizzled<T, C::kBlockQ, kHeadDim>;
  using KVTile = Swizzled<T, C::kBlockKV, kHeadDim>;
  alignas(1024) QTile sQ;  // at the end, O
  KVTile sK[2], sV[2];     // this tile's and the next one's
};

// Copies the rows [first, first + kRows) of a head into a tile. Rows past the end become zeros.
template <int kThreads, class T, int kRows, int kHeadDim>
__device__ __forceinline__ void copy_tile(Swizzled<T, kRows, kHeadDim>& tile, Rows<const T> g,
                                          int first, int num_rows, int thread) {
  constexpr int kVectors = kHeadDim / 8;      // 16 bytes each, of a row
  constexpr int kStep = kThreads / kVectors;  // rows that all threads together copy at a time
  static_assert(kThreads % kVectors == 0 && kRows % kStep == 0,
                "each thread copies the same chunk of as many rows");
  const unsigned again = opaque(thread);  // Its place in the tile, found again, holds no registers.
  const int r0 = again / kVectors, d = again % kVectors * 8;
  const T* from = &g(first + r0, d);
#pragma unroll
  for (int n = 0; n < kRows / kStep; ++n) {
    const int r = r0 + n * kStep;
    uint4 vector = {};
    if (first + r < num_rows) vector = __ldcg(reinterpret_cast<const uint4*>(from));
    *reinterpret_cast<uint4*>(&tile(r, d)) = vector;
    from = opaque(from + kStep * g.row_stride);
  }
}

// The maximum and the sum over the four lanes that share a row of an accumulator.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// O = softmax(softmax_scale · Q Kᵀ) V. One block computes kBlockQ rows of O, one warp kWarpQ of
// them. Of each strip of 16 rows a lane holds parts of two rows, lane / 4 and lane / 4 + 8.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(Config<kHeadDim>::kThreads, Config<kHeadDim>::kBlocks)
    attention(ForwardParams p) {
  using C = Config<kHeadDim>;
  constexpr int kSteps = kHeadDim / 16, kKeySteps = C::kPart / 16;
  using Storage = SharedStorage<T, kHeadDim>;
  auto& storage = shared_storage<Storage>();
  auto& sQ = storage.sQ;
  auto &sK = storage.sK, &sV = storage.sV;

  // Find this block's head, queries and tensors, and this warp's queries.
  const int thread = threadIdx.x, warp = uniform(thread / 32), lane = thread % 32;
  const auto [b, h, block, unused] =
      uniform(unravel(blockIdx.x, p.heads_q, num_tiles(p.seq_q, C::kBlockQ), 1));
  const int i0 = block * C::kBlockQ, r0 = warp * C::kWarpQ;  // [FA2 Alg.1 l.1-3]
  const Sequence seq = sequence(p, b);
  const auto gQ = rows<const T>(p.q, b, h);
  const int kv_head = uniform(cuflash::kv_head(p, h));
  const Range keys = visible_keys(seq, i0, i0 + C::kBlockQ);
  const Range warp_keys = visible_keys(seq, i0 + r0, i0 + r0 + C::kWarpQ);

  // [FA2 Alg.1 l.4-5]  load Q_i; O = 0, l = 0, m = -inf
  copy_tile<C::kThreads>(sQ, gQ, i0, seq.num_queries, thread);
  MmaAccumulator::Registers rO[C::kStrips][kHeadDim / kMmaN] = {};
  float row_max[C::kStrips][2], row_sum[C::kStrips][2] = {};  // row_sum: of this lane's columns
  for (auto& m : row_max) m[0] = m[1] = -INFINITY;
  const float scale_log2 = p.softmax_scale * kLog2e;

  // Load K and V of the first tile, if the block sees a key.
  int stage = 0;
  const auto load = [&, b = b](int j0, int to) {
    const int head = opaque(kv_head);  // Where K and V begin, found again, holds no registers.
    copy_tile<C::kThreads>(sK[to], rows<const T>(p.k, b, head), j0, seq.num_keys, thread);
    copy_tile<C::kThreads>(sV[to], rows<const T>(p.v, b, head), j0, seq.num_keys, thread);
  };
  if (keys.begin < keys.end) load(keys.begin / C::kBlockKV * C::kBlockKV, stage);
  __syncthreads();  // sQ is written before any warp reads its rows, or writes O there.

  for (const int j0 : kv_tiles<C::kBlockKV>(seq, i0, C::kBlockQ)) {  // [FA2 Alg.1 l.6, 11]
    // [FA2 Alg.1 l.7]  load K_j, V_j    // of the next tile, while this one is used
    __syncthreads();  // All threads have written K_j and V_j, and have read the other buffers.
    auto &tile_K = sK[stage], &tile_V = sV[stage];
    stage ^= 1;
    if (j0 + C::kBlockKV < keys.end) load(j0 + C::kBlockKV, stage);
    if (j0 >= warp_keys.end || j0 + C::kBlockKV <= warp_keys.begin)
      continue;  // This warp sees no key of the tile.

    // Find this lane's elements of the tiles. Finding them again for each tile saves registers.
    const int lane = opaque(thread) % 32u;
    const Chunks lane_Q(sQ, r0 + LoadA::row(lane), LoadA::col(lane));
    const Chunks lane_K(tile_K, LoadBTransposed::row(lane), LoadBTransposed::col(lane));
    const Chunks lane_V(tile_V, LoadB::row(lane), LoadB::col(lane));

    // As many keys at a time as the registers hold.
#pragma unroll 1
    for (int part = 0; part < C::kBlockKV; part += C::kPart) {
      // [FA2 Alg.1 l.8]  S = Q_i K_jᵀ    // (kWarpQ, kPart) f32 a warp, registers
      MmaAccumulator::Registers rS[C::kStrips][C::kPart / kMmaN] = {};
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        MmaA::Registers rQ[C::kStrips];
#pragma unroll
        for (int m = 0; m < C::kStrips; ++m) {
          ptx::ldmatrix_x4(rQ[m], lane_Q(m, k));
        }
#pragma unroll
        for (int n = 0; n < kKeySteps; ++n) {
          std::uint32_t rK[4];  // of 16 keys: a row of sK is a column of Kᵀ
          ptx::ldmatrix_x4(rK, lane_K(part / 16 + n, k));
#pragma unroll
          for (int m = 0; m < C::kStrips; ++m) {
            ptx::mma_m16n8k16<T>(rS[m][2 * n], rQ[m], {rK[0], rK[1]});
            ptx::mma_m16n8k16<T>(rS[m][2 * n + 1], rQ[m], {rK[2], rK[3]});
          }
        }
      }

      // Mask the scores, where the warp's part of the tile needs it.
      if (!all_visible(seq, i0 + r0, C::kWarpQ, j0 + part, C::kPart)) {
#pragma unroll
        for (int n = 0; n < C::kStrips * C::kPart / kMmaN; ++n) {
          const int m = n % C::kStrips;
#pragma unroll
          for (int e = 0; e < MmaAccumulator::kElements; ++e) {
            const int i = i0 + r0 + m * kMmaM + MmaAccumulator::row(lane, e);
            const int j = j0 + part + n / C::kStrips * kMmaN + MmaAccumulator::col(lane, e);
            if (j >= seq.num_keys || !visible(seq, i, j)) rS[m][n / C::kStrips][e] = -INFINITY;
          }
        }
      }

      // [FA2 Alg.1 l.9]  m = max(m, rowmax S), P = exp(S − m), l = o_scale · l + rowsum P
      MmaA::Registers rP[C::kStrips][kKeySteps];  // in the lanes that hold these elements of S
#pragma unroll
      for (int x = 0; x < 2 * C::kStrips; ++x) {
        const int m = x / 2, r = x % 2;  // strip, and which of the lane's two rows
        float new_max = row_max[m][r];
        for (const auto& s : rS[m]) new_max = fmaxf(new_max, fmaxf(s[2 * r], s[2 * r + 1]));
        new_max = quad_max(new_max);
        const float finite_max = new_max == -INFINITY ? 0.f : new_max;  // No key seen yet.
        const float o_scale = ptx::exp2((row_max[m][r] - finite_max) * scale_log2);
        // Weigh the keys.
        float sum = 0.f;
#pragma unroll
        for (int n = 0; n < C::kPart / kMmaN; ++n) {
          const float left = ptx::exp2(rS[m][n][2 * r] * scale_log2 - finite_max * scale_log2);
          const float right = ptx::exp2(rS[m][n][2 * r + 1] * scale_log2 - finite_max * scale_log2);
          sum += left + right;
          rP[m][n / 2][n % 2 * 2 + r] = pack<T>(left, right);
        }
        row_sum[m][r] = row_sum[m][r] * o_scale + sum;
        row_max[m][r] = new_max;
        // Rescale O.
        for (auto& o : rO[m]) o[2 * r] *= o_scale, o[2 * r + 1] *= o_scale;
      }

      // [FA2 Alg.1 l.10]  O = o_scale · O + P V_j    // (kWarpQ, kHeadDim) f32 a warp, registers
#pragma unroll
      for (int k = 0; k < kKeySteps; ++k) {
#pragma unroll
        for (int n = 0; n < kSteps; ++n) {
          std::uint32_t rV[4];  // of 16 columns
          ptx::ldmatrix_x4_trans(rV, lane_V(part / 16 + k, n));
#pragma unroll
          for (int m = 0; m < C::kStrips; ++m) {
            ptx::mma_m16n8k16<T>(rO[m][2 * n], rP[m][k], {rV[0], rV[1]});
            ptx::mma_m16n8k16<T>(rO[m][2 * n + 1], rP[m][k], {rV[2], rV[3]});
          }
        }
      }
    }
  }

  // [FA2 Alg.1 l.12]  O = O / l    // into the rows of sQ that this warp alone reads
  __syncwarp();  // All lanes have read these rows before they are overwritten.
#pragma unroll
  for (int x = 0; x < 2 * C::kStrips; ++x) {
    const int m = x / 2, r = x % 2;
    const int row = r0 + m * kMmaM + MmaAccumulator::row(lane, 2 * r), i = i0 + row;
    const float sum = quad_sum(row_sum[m][r]), inverse = sum > 0.f ? 1.f / sum : 0.f;
#pragma unroll
    for (int n = 0; n < kHeadDim / kMmaN; ++n) {
      *reinterpret_cast<std::uint32_t*>(&sQ(row, n * kMmaN + MmaAccumulator::col(lane, 0))) =
          pack<T>(rO[m][n][2 * r] * inverse, rO[m][n][2 * r + 1] * inverse);
    }
    if (lane % 4 == 0 && i < seq.num_queries && p.lse != nullptr) {
      p.lse[row_index(p, b, h, i)] =
          row_max[m][r] * p.softmax_scale + logf(sum);  // [FA2 Alg.1 l.13, 15]
    }
  }
  __syncwarp();  // The warp's rows are written before its lanes read them in another order.

  // [FA2 Alg.1 l.14]  write O_i
  const auto gO = rows<T>(p.o, b, h);
  constexpr int kVectors = kHeadDim / 8;  // 16 bytes each, of a row
#pragma unroll
  for (int n = lane; n < C::kWarpQ * kVectors; n += 32) {
    const int row = r0 + n / kVectors, d = n % kVectors * 8;
    if (i0 + row >= seq.num_queries) continue;
    *reinterpret_cast<uint4*>(&gO(i0 + row, d)) = *reinterpret_cast<const uint4*>(&sQ(row, d));
  }
}  // [FA2 Alg.1 l.16-17]

}  // namespace cuflash::swizzle
