// Proxy fences between the accesses of threads and those of the copy unit.
#ifndef CUFLASH_SIMT_PROXY_FENCE_H_
#define CUFLASH_SIMT_PROXY_FENCE_H_

#include <cstdint>

#include "simt/memory.h"
#include "simt/thread.h"

namespace cuflash::simt {

// The thread has the copy unit access global memory, after an access that is ordered before.
// Reports that a proxy fence is missing between the two.
void check_proxy_fence(const Thread& self, const Region& region, std::uintptr_t address,
                       Stamp earlier, std::uint16_t site);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_PROXY_FENCE_H_
