// The CPU simulator's matrix descriptor: the fields of the hardware's, with an address of 64 bits.
#ifndef CUFLASH_SIMT_DEVICE_PTX_MATRIX_DESCRIPTOR_H_
#define CUFLASH_SIMT_DEVICE_PTX_MATRIX_DESCRIPTOR_H_

#include <cuda_runtime.h>

#include "device/host/tensor_map_arguments.h"
#include "device/ptx/shared_address.h"

namespace cuflash::ptx {

struct MatrixDescriptor {
  const char* begin;
  unsigned leading_bytes;  // from one panel to the next, if the operand's rows are longer
  unsigned stride_bytes;   // from 8 rows to the next 8
  TensorSwizzle swizzle;
};

template <class Tile>
__forceinline__ MatrixDescriptor descriptor(const Tile& tile, int offset_bytes) {
  constexpr unsigned kRowBytes = Tile::kPanelCols * 2;
  return {SharedAddress(&tile).value + offset_bytes, sizeof(tile.panels[0]), 8 * kRowBytes,
          kRowBytes == 128 ? TensorSwizzle::k128Bytes : TensorSwizzle::k64Bytes};
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_MATRIX_DESCRIPTOR_H_
