// Which element is this thread's? One-dimensional grids, so the 65,535 limit of grid.y and grid.z
// never matters.
#ifndef CUFLASH_DEVICE_INDEX_H_
#define CUFLASH_DEVICE_INDEX_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace cuflash {

// A place in a [batch, heads, rows, columns] array.
struct Place {
  int batch, head, row, column;
};

// The place of element n of a [batch, heads, rows, columns] array, the last index fastest.
__device__ __forceinline__ Place unravel(std::int64_t n, int heads, int rows, int columns) {
  const std::int64_t row = n / columns;
  const std::int64_t head = row / rows;
  return {static_cast<int>(head / heads), static_cast<int>(head % heads),
          static_cast<int>(row % rows), static_cast<int>(n % columns)};
}

// How many tiles of `tile` rows cover `rows`.
__host__ __device__ constexpr int num_tiles(int rows, int tile) { return (rows - 1) / tile + 1; }

// The blocks of a kernel that has one for each tile of `tile` of the rows of each head.
inline std::int64_t num_blocks(int batch, int heads, int rows, int tile) {
  return std::int64_t{batch} * heads * num_tiles(rows, tile);
}

// The number of this thread in a one-dimensional grid.
__device__ __forceinline__ std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

// The most elements that grid_for() has threads for: grid.x has 31 bits.
constexpr std::int64_t max_count(int threads) { return std::int64_t{0x7fffffff} * threads; }

// The grid that gives each of `count` elements a thread.
inline dim3 grid_for(std::int64_t count, int threads) {
  return dim3(static_cast<unsigned>((count + threads - 1) / threads));
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_INDEX_H_
