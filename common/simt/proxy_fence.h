// Proxy fences between the accesses of threads and those of the copy unit.
#ifndef CUFLASH_SIMT_PROXY_FENCE_H_
#define CUFLASH_SIMT_PROXY_FENCE_H_

#include <cstdint>

#include "simt/memory.h"
#include "simt/thread.h"

namespace cuflash::simt {

// Checks the proxy fences between an access to global memory and a later access, ordered after it,
// by the copy unit on behalf of this thread.
void check_proxy_fence(const Thread& self, const Region& region, std::uintptr_t address,
                       Stamp earlier, std::uint16_t site);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_PROXY_FENCE_H_
