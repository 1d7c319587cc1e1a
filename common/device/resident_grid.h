// A grid whose blocks stay: as many as the device runs at a time, each of which takes one piece of
// work after the other.
#ifndef CUFLASH_DEVICE_RESIDENT_GRID_H_
#define CUFLASH_DEVICE_RESIDENT_GRID_H_

#include <cuda_runtime.h>

#include <algorithm>

#include "device/grid.h"

namespace cuflash {

// The most blocks of such a grid, so that tests can have a block do much work; 0: one for each of
// the device's multiprocessors.
inline int resident_blocks = 0;

// A block for each multiprocessor, but no more than there are pieces of work. Storage is in a
// block's shared memory.
template <class Storage, class Kernel, class... Args>
Grid<Kernel, Args...> resident_grid(std::int64_t work, int threads, Kernel kernel,
                                    const Args&... args) {
  int device = 0, blocks = resident_blocks;
  if (blocks == 0) {
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device);
  }
  return {
      kernel, std::min<std::int64_t>(blocks, work), threads, shared_layout<Storage>(), {args...}};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_RESIDENT_GRID_H_
