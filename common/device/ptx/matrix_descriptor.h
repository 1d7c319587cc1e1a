// The word by which wgmma finds an operand in shared memory (PTX ISA, "Matrix descriptor").
#ifndef CUFLASH_DEVICE_PTX_MATRIX_DESCRIPTOR_H_
#define CUFLASH_DEVICE_PTX_MATRIX_DESCRIPTOR_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "device/ptx/shared_address.h"

namespace cuflash::ptx {

// A 64-bit word that describes an operand of wgmma in shared memory (PTX ISA, "Matrix descriptor").
// Addresses and offsets are in units of 16 bytes:
//   bits 0 to 13: the start address
//   bits 16 to 29, the leading offset: from one panel to the next, if the operand's rows are
//     longer than a panel's
//   bits 32 to 45, the stride: from 8 rows to the next 8
//   bits 62 and 63, the swizzle: 1 for 128 bytes, 2 for 64 bytes
// A cluster's second block has bit 24 set in its shared addresses, which would become part of the
// leading offset. No kernel here is launched in clusters.
struct MatrixDescriptor {
  std::uint64_t bits;
};

// Returns the descriptor of an operand in `tile`, a SwizzledTile (device/swizzle.h), whose type
// gives the offsets and the swizzle. The operand begins `offset_bytes` after the start of the tile,
// counted as if there were no swizzle.
template <class Tile>
__device__ __forceinline__ MatrixDescriptor descriptor(const Tile& tile, int offset_bytes) {
  constexpr unsigned kUnit = 16, kRowBytes = Tile::kPanelCols * 2;
  constexpr unsigned kPanelBytes = sizeof(tile.panels[0]);
  constexpr unsigned kSwizzle = Tile::kPanelCols == 64 ? 1 : 2;
  const unsigned begin = SharedAddress(&tile).value / kUnit + offset_bytes / kUnit;
  constexpr unsigned kHigh = 8 * kRowBytes / kUnit | kSwizzle << 30;
  // A sum instead of an OR, so that the compiler can combine all constants.
  return {std::uint64_t{kHigh} << 32 | (begin + (kPanelBytes / kUnit << 16))};
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_MATRIX_DESCRIPTOR_H_
