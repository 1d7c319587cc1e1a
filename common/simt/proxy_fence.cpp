// fence.proxy.async: a barrier orders accesses of threads (the generic proxy) before accesses of
// the copy unit and the tensor cores (the async proxy) only together with such a fence. There is
// one for shared and one for global memory.
#include "simt/proxy_fence.h"

#include <device/ptx/tensor_copy.h>

#include "simt/core.h"

namespace cuflash::simt {

// In one block a fence lies between the two, whichever thread executes it. If a count orders the
// first access before this one, its thread must have executed a fence before it added to the count,
// and this thread another after its wait. After an access by the copy unit, only the second fence
// is needed, because its thread has waited for its end.
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
