// Marks the tile that a thread is working on, for the simulator's reports.
#ifndef CUFLASH_DEVICE_TILE_MARK_H_
#define CUFLASH_DEVICE_TILE_MARK_H_

namespace cuflash {

// `name` lives as long as the program. The thread works on this tile until it marks another, or
// none (null).
void mark_tile(const char* name, int number);

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILE_MARK_H_
