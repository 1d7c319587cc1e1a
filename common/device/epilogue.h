// The end of a kernel: rounds accumulators and writes them to a tensor, through a tile in shared
// memory or directly from registers. A lane holds two columns of a row but writes eight at a time.
#ifndef CUFLASH_DEVICE_EPILOGUE_H_
#define CUFLASH_DEVICE_EPILOGUE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "device/mma_fragments.h"
#include "device/swizzle.h"
#include "device/tensor.h"

namespace cuflash {

// Rounds a warp's accumulators and stores them in a tile from (row, col) on. scale[r] multiplies
// the lane's row r: lane / 4 and lane / 4 + 8.
template <class T, class Tile, int kFragments>
__device__ __forceinline__ void store_rounded(Tile& tile, int row, int col,
                                              const float (&rD)[kFragments][4],
                                              const float (&scale)[2], int lane) {
#pragma unroll
  for (int n = 0; n < kFragments; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      auto& to = tile(row + MmaAccumulator::row(lane, 2 * r),
                      col + n * kMmaN + MmaAccumulator::col(lane, 0));
      *reinterpret_cast<std::uint32_t*>(&to) =
          pack<T>(rD[n][2 * r] * scale[r], rD[n][2 * r + 1] * scale[r]);
    }
  }
}
// store_rounded() with one scale for all rows.
template <class T, class Tile, int kFragments>
__device__ __forceinline__ void store_rounded(Tile& tile, int row, int col,
                                              const float (&rD)[kFragments][4], float scale,
                                              int lane) {
  store_rounded<T>(tile, row, col, rD, {scale, scale}, lane);
}

// store_rounded() for strips of 16 rows, one below the other.
template <class T, class Tile, int kStrips, int kFragments>
__device__ __forceinline__ void store_rounded(Tile& tile, int row, int col,
                                              const float (&rD)[kStrips][kFragments][4],
                                              float scale, int lane) {
#pragma unroll
  for (int m = 0; m < kStrips; ++m) {
    store_rounded<T>(tile, row + m * kMmaM, col, rD[m], scale, lane);
  }
}

// Writes kCount rows from r0 and kCols columns from `col` of a tile to a head; each thread writes
// one chunk per panel. Row 0 of the tile is row `first` of the head. Rows outside the head are
// skipped.
template <int kCount, int kCols, int kThreads, class T, class Tile>
__device__ __forceinline__ void write_rows(Rows<T> g, Tile& tile, int r0, int col, int first,
                                           int num_rows, unsigned thread) {
  constexpr int kStep = kThreads / Tile::kChunks;  // rows that the threads write per iteration
  const int d = col + thread % Tile::kChunks * Tile::kChunk;
#pragma unroll
  for (int n = 0; n < kCount; n += kStep) {
    const int r = r0 + n + thread / Tile::kChunks;
    // As unsigned, the negative index of a row before the head exceeds num_rows, too.
    if (static_cast<unsigned>(first + r) >= static_cast<unsigned>(num_rows)) continue;
#pragma unroll
    for (int c = 0; c < kCols; c += Tile::kPanelCols) {
      *reinterpret_cast<uint4*>(&g(first + r, d + c)) =
          *reinterpret_cast<const uint4*>(&tile(r, d + c));
    }
  }
}

// Transposes a 4 × 4 block across the four lanes of a quad.
__device__ __forceinline__ void transpose_in_quad(std::uint32_t (&x)[4], int lane) {
#pragma unroll
  for (int bit = 1; bit <= 2; ++bit) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int low = bit == 1 ? 2 * n : n, high = low + bit;
      const std::uint32_t got =
          __shfl_xor_sync(0xffffffffu, upper ? x[low] : x[high], static_cast<unsigned>(bit));
      if (upper) {
        x[low] = got;
      } else {
        x[high] = got;
      }
    }
  }
}

// Scales and rounds four neighbouring accumulators and writes them to a tensor. A lane holds two
// columns of each, in a row and in the row eight below. The lanes of a quad exchange them, so that
// each lane writes all eight columns of accumulator lane % 4: of the upper row at `to`, and of the
// lower row eight rows below. The tensor has `rows_left` rows from `to` on; rows past them are
// skipped.
constexpr int kWrittenTogether = 4;
template <class T>
__device__ __forceinline__ void write_rounded(T* to, std::int64_t row_stride, int rows_left,
                                              const float4 (&r)[kWrittenTogether], float scale,
                                              int lane) {
  std::uint32_t upper[kWrittenTogether], lower[kWrittenTogether];
#pragma unroll
  for (int n = 0; n < kWrittenTogether; ++n) {
    upper[n] = pack<T>(r[n].x * scale, r[n].y * scale);
    lower[n] = pack<T>(r[n].z * scale, r[n].w * scale);
  }
  transpose_in_quad(upper, lane);
  transpose_in_quad(lower, lane);
  const auto write = [&](int row, const std::uint32_t(&x)[kWrittenTogether]) {
    if (row < rows_left) {
      *reinterpret_cast<uint4*>(to + row * row_stride) = {x[0], x[1], x[2], x[3]};
    }
  };
  write(0, upper);
  write(kMmaM / 2, lower);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_EPILOGUE_H_
