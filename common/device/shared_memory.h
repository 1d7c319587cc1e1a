// Dynamic shared memory. All kernels use the same array; each launch sets its size.
#ifndef CUFLASH_DEVICE_SHARED_MEMORY_H_
#define CUFLASH_DEVICE_SHARED_MEMORY_H_

#include <cuda_runtime.h>

#include <cstddef>

#include "device/shared_layout.h"

namespace cuflash {

// The size that every launch may use, and a block's maximum on compute capability 7.5, and on 8.6
// and 8.9.
constexpr std::size_t kDefaultSharedBytes = 48 * 1024;
constexpr std::size_t kSharedBytesOfSm75 = 64 * 1024;
constexpr std::size_t kSharedBytesOfSm86 = 99 * 1024;

// The largest alignment that the hardware requires of an array in shared memory: that of a tile
// with the 128-byte swizzle.
constexpr std::size_t kSharedAlignment = 1024;

extern __shared__ __align__(kSharedAlignment) unsigned char shared_memory[];

// The dynamic shared memory as the arrays that the stage declares.
template <class Storage>
__device__ __forceinline__ Storage& shared_storage() {
  static_assert(alignof(Storage) <= kSharedAlignment, "shared_memory is aligned to 1,024 bytes");
  return *reinterpret_cast<Storage*>(shared_memory);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_SHARED_MEMORY_H_
