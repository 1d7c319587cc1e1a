// A persistent grid: one block per multiprocessor, each of which takes one piece of work after the
// other.
#ifndef CUFLASH_DEVICE_HOST_RESIDENT_GRID_H_
#define CUFLASH_DEVICE_HOST_RESIDENT_GRID_H_

#include <algorithm>

#include "cuflash/stage.h"
#include "device/host/grid.h"

namespace cuflash {

// One block per multiprocessor, but no more than there are pieces of work.
inline std::int64_t num_resident_blocks(std::int64_t work, const Device& device) {
  return std::min<std::int64_t>(device.sms, work);
}

// A grid of `blocks` blocks, with Storage in the shared memory of each.
template <class Storage, class Kernel, class... Args>
Grid<Kernel, Args...> resident_grid(std::int64_t blocks, int threads, Kernel kernel,
                                    const Args&... args) {
  return {kernel, blocks, threads, shared_layout<Storage>(), {args...}};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_HOST_RESIDENT_GRID_H_
