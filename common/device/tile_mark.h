// Marks the tile that a thread is working on; a null name ends the mark. On a GPU it does nothing;
// the CPU simulator's version of this header records the mark for reports.
#ifndef CUFLASH_DEVICE_TILE_MARK_H_
#define CUFLASH_DEVICE_TILE_MARK_H_

namespace cuflash {

__device__ __forceinline__ void mark_tile(const char* /*name*/, int /*number*/) {}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILE_MARK_H_
