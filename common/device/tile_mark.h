// Says which tile a thread is working on; null for none. Costs nothing here; the CPU simulator's
// twin remembers it for its reports.
#ifndef CUFLASH_DEVICE_TILE_MARK_H_
#define CUFLASH_DEVICE_TILE_MARK_H_

namespace cuflash {

__device__ __forceinline__ void mark_tile(const char* /*name*/, int /*number*/) {}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILE_MARK_H_
