// The element that a thread works on. Grids are one-dimensional, so the limit of 65,535 for grid.y
// and grid.z never applies.
#ifndef CUFLASH_DEVICE_INDEX_H_
#define CUFLASH_DEVICE_INDEX_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "cuflash/problem.h"

namespace cuflash {

// The position of an element in a [batch, heads, rows, columns] array.
struct Place {
  int batch, head, row, column;
};

// The position of element n of a [batch, heads, rows, columns] array in row-major order.
__device__ __forceinline__ Place unravel(std::int64_t n, int heads, int rows, int columns) {
  const std::int64_t row = n / columns;
  const std::int64_t head = row / rows;
  return {static_cast<int>(head / heads), static_cast<int>(head % heads),
          static_cast<int>(row % rows), static_cast<int>(n % columns)};
}

// The number of tiles of `tile` rows that cover `rows` rows.
__host__ __device__ constexpr int num_tiles(int rows, int tile) { return (rows - 1) / tile + 1; }

// The number of rows of Q over all batches and heads.
inline std::int64_t num_rows(const Problem& p) {
  return std::int64_t{p.batch} * p.heads_q * p.seq_q;
}

// The index of this thread in a one-dimensional grid.
__device__ __forceinline__ std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

// The maximum number of blocks in a one-dimensional grid: grid.x has 31 bits.
constexpr std::int64_t kMaxBlocks = 0x7fffffff;

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_INDEX_H_
