// The shared memory of a stage's kernels, drawn.
#ifndef CUFLASH_BENCH_LADDER_MEMORY_MAP_H_
#define CUFLASH_BENCH_LADDER_MEMORY_MAP_H_

#include <string>
#include <vector>

#include "simt/machine.h"

namespace cuflash::bench {

// A row for each array: its place in the block's shared memory, its size and its extents.
std::string memory_map_text(const std::vector<simt::SharedMap>& maps);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_MEMORY_MAP_H_
