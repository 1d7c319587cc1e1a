// Marks the tile that a thread is working on; a null name ends the mark. On a GPU only a timeline
// uses the mark; the CPU simulator's version of this header records it for reports.
#ifndef CUFLASH_DEVICE_TILE_MARK_H_
#define CUFLASH_DEVICE_TILE_MARK_H_

#include <cstddef>

#include "device/instruments/points.h"

namespace cuflash {

__device__ __forceinline__ void mark_tile(const char* /*name*/, int number,
                                          instruments::Line line = {}) {
  instruments::note(instruments::Kind::kTile, line, number);
}
__device__ __forceinline__ void mark_tile(std::nullptr_t, int /*number*/,
                                          instruments::Line line = {}) {
  instruments::note(instruments::Kind::kLastTile, line);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILE_MARK_H_
