// fence.proxy.async: what threads access (the generic proxy) and what the copy unit and the tensor
// cores access (the asynchronous one) is ordered by a barrier only together with such a fence. It
// is for shared memory or for global memory.
#include "simt/proxy_fence.h"

#include <device/ptx/tensor_copy.h>

#include "simt/core.h"

namespace cuflash::simt {

// In one block a fence lies between the two, whichever thread makes it. If a count announces the
// first, its thread must have made a fence before it added to the count, and this thread another
// since it has read the count. An access by the copy unit needs only the second: its thread has
// waited for its end.
void check_proxy_fence(const Thread& self, const Region& region, std::uintptr_t address,
                       Stamp earlier, std::uint16_t site) {
  if (earlier < core.order.launch_start()) return;
  const bool by_tma = core.sites[stamp_site(earlier)].of_tma,
             in_block = earlier >= core.order.block_start();
  if (in_block && by_tma) return;
  const KnownFences &known = self.fences.known, &proxied = self.fences.proxied;
  const bool fenced = by_tma || core.order.fences.happens_before(earlier, known, true);
  const bool announced = fenced || core.order.fences.happens_before(earlier, known);
  if (in_block && fenced == announced && self.knowledge.has_fenced_global(earlier)) return;
  if (fenced && core.order.fences.happens_before(earlier, proxied)) return;
  report_accesses(Report::kAccessWithoutProxyFence, &region, address,
                  {named_access(earlier), access_of(self, site)},
                  fenced
                      ? "The second access may overtake the first. Its thread must call "
                        "fence_proxy_async_global() once it has synchronized with the first thread."
                      : "The second access may overtake the first, whose thread must call "
                        "fence_proxy_async_global() before it signals other threads.");
}

void fence_proxy_async() { core.order.fence_proxy(*running_thread(), false); }
void fence_proxy_async_global() { core.order.fence_proxy(*running_thread(), true); }

}  // namespace cuflash::simt
