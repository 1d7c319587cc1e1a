// How many blocks a grid has whose blocks stay (device/host/resident_grid.h), for tests.
#ifndef CUFLASH_DEVICE_RESIDENT_BLOCKS_H_
#define CUFLASH_DEVICE_RESIDENT_BLOCKS_H_

namespace cuflash {

// If not 0, the most blocks of such a grid, in place of one for each multiprocessor: tests set it
// so that a block takes much work.
inline int resident_blocks = 0;

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_RESIDENT_BLOCKS_H_
