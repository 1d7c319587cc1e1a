// fence.proxy.async: what threads access (the generic proxy) and what the copy unit and the tensor
// cores access (the asynchronous one) is ordered by a barrier only together with such a fence. It
// is for shared memory or for global memory.
#include <device/ptx/tensor_copy.h>

#include "simt/access_check.h"

namespace cuflash::simt {

void Core::fence_proxy_async(Thread& self, bool global) {
  knowledge_in_use_ = true;
  note_moment(self);
  std::vector<Stamp>& fenced = global ? self.knowledge.fenced_global : self.knowledge.fenced;
  for (int t = 0; t < num_threads_; ++t) {
    Knowledge::note(fenced, t, std::max(self.knowledge.before[t], last_barrier_));
  }
  if (global) self.fences.proxied = self.fences.known;
}

// The thread has the copy unit access global memory, after an access that is ordered before. In one
// block a fence lies between the two, whichever thread makes it. If a count announces the first,
// its thread must have made a fence before it added to the count, and this thread another since it
// has read the count. An access by the copy unit needs only the second: its thread has waited for
// its end.
void Core::check_proxy_fence(const Thread& self, const Region& region, std::uintptr_t address,
                             Stamp earlier, std::uint16_t site) {
  if (earlier < launch_start_) return;
  const bool by_tma = sites[stamp_site(earlier)].of_tma, in_block = earlier >= block_start_;
  if (in_block && by_tma) return;
  const KnownFences &known = self.fences.known, &proxied = self.fences.proxied;
  const bool fenced = by_tma || fences_.happens_before(earlier, known, true);
  const bool announced = fenced || fences_.happens_before(earlier, known);
  if (in_block && fenced == announced && self.knowledge.has_fenced_global(earlier)) return;
  if (fenced && fences_.happens_before(earlier, proxied)) return;
  report_accesses(
      Report::kAccessWithoutProxyFence, &region, address,
      {named_access(earlier), access_of(self, site)},
      fenced ? "The second may overtake the first. Its thread must call fence_proxy_async_global() "
               "when it has learned of the first."
             : "The second may overtake the first, whose thread must call "
               "fence_proxy_async_global() before others learn of it.");
}

void fence_proxy_async() { core.fence_proxy_async(*running_thread(), false); }
void fence_proxy_async_global() { core.fence_proxy_async(*running_thread(), true); }

}  // namespace cuflash::simt
