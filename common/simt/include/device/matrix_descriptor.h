// The CPU simulator's matrix descriptor, the twin of common/device/matrix_descriptor.h: its fields,
// with an address of 64 bits.
#ifndef CUFLASH_DEVICE_MATRIX_DESCRIPTOR_H_
#define CUFLASH_DEVICE_MATRIX_DESCRIPTOR_H_

#include "device/ptx/shared_address.h"
#include "device/swizzle.h"
#include "device/tensor_map_arguments.h"

namespace cuflash {

struct MatrixDescriptor {
  const char* begin;
  unsigned leading_bytes;  // from one panel to the next, if the operand's rows are longer
  unsigned stride_bytes;   // from 8 rows to the next 8
  TensorSwizzle swizzle;
};

template <class Tile>
__forceinline__ MatrixDescriptor descriptor(const Tile& tile, int offset_bytes) {
  constexpr unsigned kRowBytes = Tile::kPanelCols * 2;
  return {ptx::SharedAddress(&tile).value + offset_bytes, sizeof(tile.panels[0]), 8 * kRowBytes,
          kRowBytes == 128 ? TensorSwizzle::k128Bytes : TensorSwizzle::k64Bytes};
}

template <class Tile>
__forceinline__ MatrixDescriptor k_major(const Tile& tile, int row, int col) {
  constexpr int kRowBytes = Tile::kPanelCols * 2, kPanelBytes = sizeof(tile.panels[0]);
  return descriptor(
      tile, col / Tile::kPanelCols * kPanelBytes + row * kRowBytes + col % Tile::kPanelCols * 2);
}

template <class Tile>
__forceinline__ MatrixDescriptor mn_major(const Tile& tile, int row) {
  return descriptor(tile, row * Tile::kPanelCols * 2);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_MATRIX_DESCRIPTOR_H_
