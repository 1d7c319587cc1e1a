// The operands of wgmma in a SwizzledTile (device/swizzle.h).
#ifndef CUFLASH_DEVICE_MATRIX_DESCRIPTOR_H_
#define CUFLASH_DEVICE_MATRIX_DESCRIPTOR_H_

#include <cuda_runtime.h>

#include "device/ptx/matrix_descriptor.h"

namespace cuflash {

// Returns the descriptor of an operand of 16 columns that begins in row `row`, a multiple of 8, and
// column `col`. The product sums over the columns, as for both operands of Q · Kᵀ.
template <class Tile>
__device__ __forceinline__ ptx::MatrixDescriptor k_major(const Tile& tile, int row, int col) {
  constexpr int kRowBytes = Tile::kPanelCols * 2, kPanelBytes = sizeof(tile.panels[0]);
  return ptx::descriptor(
      tile, col / Tile::kPanelCols * kPanelBytes + row * kRowBytes + col % Tile::kPanelCols * 2);
}

// Returns the descriptor of the columns from `col` on, where a panel begins, of the 16 rows from
// `row` on, a multiple of 8. The product sums over the rows, as for V in P · V.
template <class Tile>
__device__ __forceinline__ ptx::MatrixDescriptor mn_major(const Tile& tile, int row, int col = 0) {
  constexpr int kPanelBytes = sizeof(tile.panels[0]);
  return ptx::descriptor(tile, col / Tile::kPanelCols * kPanelBytes + row * Tile::kPanelCols * 2);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_MATRIX_DESCRIPTOR_H_
