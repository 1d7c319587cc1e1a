// Marks the tile that a thread is working on, for the simulator's reports.
#ifndef CUFLASH_DEVICE_TILE_MARK_H_
#define CUFLASH_DEVICE_TILE_MARK_H_

namespace cuflash {

// `name` must live as long as the program; null marks no tile. The tile is the thread's until it
// marks another.
void mark_tile(const char* name, int number);

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILE_MARK_H_
