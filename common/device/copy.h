// Copies tiles from global to shared memory, 16 bytes per thread and access.
#ifndef CUFLASH_DEVICE_COPY_H_
#define CUFLASH_DEVICE_COPY_H_

#include "device/tensor.h"

namespace cuflash {

// The n-th row that lanes visit in a tile whose rows are kRowBytes and 16 bytes of padding. A row
// of 64 bytes covers half of the banks. The next row covers some of the same ones; the fourth row
// after it covers the other half, so the two are visited one after the other.
template <int kRowBytes>
__device__ __forceinline__ int visited_row(int n) {
  if constexpr (kRowBytes == 64) {
    return (n & ~7) + (n & 1) * 4 + (n >> 1 & 3);
  } else {
    return n;
  }
}

// Copies the rows [first, first + kRows) of a head into a tile of rows of kHeadDim elements and
// padding. Rows past the end become zeros.
template <int kHeadDim, int kThreads, class T, int kRows, int kStride>
__device__ __forceinline__ void copy_tile(T (&tile)[kRows][kStride], Rows<const T> g, int first,
                                          int num_rows, int thread) {
  constexpr int kVector = 16 / sizeof(T), kVectors = kHeadDim / kVector;
  static_assert(kStride % kVector == 0, "each row of the tile begins at a multiple of 16 bytes");
  static_assert(kRows * kVectors % kThreads == 0, "each thread copies the same number of vectors");
#pragma unroll
  for (int n = 0; n < kRows * kVectors / kThreads; ++n) {
    const int index = thread + n * kThreads;
    const int r = visited_row<kHeadDim * sizeof(T)>(index / kVectors);
    const int d = index % kVectors * kVector;
    uint4 vector = {};
    if (first + r < num_rows) vector = *reinterpret_cast<const uint4*>(&g(first + r, d));
    *reinterpret_cast<uint4*>(&tile[r][d]) = vector;
  }
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_COPY_H_
