// Barriers for some warps of the running block.
#ifndef CUFLASH_SIMT_NAMED_BARRIER_H_
#define CUFLASH_SIMT_NAMED_BARRIER_H_

#include <array>
#include <cstddef>
#include <vector>

namespace cuflash::simt {

struct NamedBarrier {
  std::size_t threads = 0;   // for which it opens, as the first of them said
  std::vector<int> arrived;  // since it opened last
};

using NamedBarriers = std::array<NamedBarrier, 16>;  // 0 is __syncthreads()

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_NAMED_BARRIER_H_
