// Fragments of nvcuda::wmma, for the stages after 05_wmma, which explains them.
#ifndef CUFLASH_DEVICE_FRAGMENTS_H_
#define CUFLASH_DEVICE_FRAGMENTS_H_

#include <mma.h>

namespace cuflash {

// The warp's matrix product: 16 × 16 += 16 × 16 · 16 × 16. The mapping of a fragment's elements to
// lanes is unspecified. The code relies only on it being the same for all fragments of one type.
constexpr int kMma = 16;
using RowMajor = nvcuda::wmma::row_major;
using ColMajor = nvcuda::wmma::col_major;
template <class T>
using MatrixA = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, kMma, kMma, kMma, T, RowMajor>;
template <class T, class Layout>
using MatrixB = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, kMma, kMma, kMma, T, Layout>;
using Accumulator = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kMma, kMma, kMma, float>;

// The fragment in which every column is `value`: row r holds value[r] 16 times. With a leading
// dimension of 0, all columns begin at the same address.
__device__ __forceinline__ Accumulator every_column(const float* value) {
  Accumulator fragment;
  load_matrix_sync(fragment, value, 0, nvcuda::wmma::mem_col_major);
  return fragment;
}

// The fragment in which every row is `value`: column c holds value[c] 16 times.
__device__ __forceinline__ Accumulator every_row(const float* value) {
  Accumulator fragment;
  load_matrix_sync(fragment, value, 0, nvcuda::wmma::mem_row_major);
  return fragment;
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_FRAGMENTS_H_
