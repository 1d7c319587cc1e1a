// Copies tiles from global to shared memory, 16 bytes per thread and access.
#ifndef CUFLASH_DEVICE_COPY_H_
#define CUFLASH_DEVICE_COPY_H_

#include "device/registers.h"
#include "device/tensor.h"

namespace cuflash {

// The nth row that lanes visit in a tile whose rows are kRowBytes and 16 bytes of padding. A row of
// 64 bytes covers half of the banks. The next row covers some of the same banks; the row four below
// covers the other half, so those two are visited one after the other.
template <int kRowBytes>
__device__ __forceinline__ int visited_row(int n) {
  if constexpr (kRowBytes == 64) {
    return (n & ~7) + (n & 1) * 4 + (n >> 1 & 3);
  } else {
    return n;
  }
}

// Copies the rows [first, first + kRows) of a head into a tile of rows of kHeadDim elements and
// padding. Rows past the end become zeros. The loads bypass the L1 cache: the block needs the data
// once.
template <int kHeadDim, int kThreads, class T, int kRows, int kStride>
__device__ __forceinline__ void copy_tile(T (&tile)[kRows][kStride], Rows<const T> g, int first,
                                          int num_rows, int thread) {
  constexpr int kVector = 16 / sizeof(T), kVectors = kHeadDim / kVector;
  constexpr int kStep = kThreads / kVectors;  // rows that the threads copy per iteration
  static_assert(kStride % kVector == 0, "each row of the tile begins at a multiple of 16 bytes");
  static_assert(kThreads % kVectors == 0 && kRows % kStep == 0,
                "each thread copies the same vector of the same number of rows");
  const unsigned again = opaque(thread);  // Recomputing the position saves registers.
  const int r0 = visited_row<kHeadDim * sizeof(T)>(again / kVectors);
  const int d = again % kVectors * kVector;
  const T* from = &g(first + r0, d);
#pragma unroll
  for (int n = 0; n < kRows / kStep; ++n) {
    const int r = r0 + n * kStep;
    uint4 vector = {};
    if (first + r < num_rows) vector = __ldcg(reinterpret_cast<const uint4*>(from));
    *reinterpret_cast<uint4*>(&tile[r][d]) = vector;
    from = opaque(from + kStep * g.row_stride);  // One moving pointer instead of one per row.
  }
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_COPY_H_
