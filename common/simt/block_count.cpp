// Counts by which blocks wait for others: ld.acquire and red.release. Blocks run one after the
// other, so that a wait ends at once, by another thread of the block, or never.
#include <device/ptx/block_count.h>

#include <algorithm>

#include "simt/core.h"

namespace cuflash::simt {

// Both are atomic operations of 4 bytes.
std::uint16_t Core::access_block_count(Thread& self, const unsigned* count,
                                       std::uintptr_t return_address) {
  constexpr AccessKind kKind = AccessKind::kAtomic;
  const std::uint16_t site = sites.id(return_address, kKind, sizeof *count);
  if (!counts_accesses()) return site;
  if (recorder.on())
    log_access(self.index, as_address(count), sizeof *count, kKind, return_address);
  check_and_count(self, as_address(count), sizeof *count, site);
  return site;
}

// Whoever sees the count may access what the thread has had stored.
void Core::add_to_block_count(Thread& self, unsigned* count, std::uintptr_t return_address) {
  const std::uint16_t site = access_block_count(self, count, return_address);
  const auto& stores = tensor_stores_.list;
  const auto store = std::find_if(stores.begin(), stores.end(), [&](const TensorStore& s) {
    return stamp_thread(s.begun) == self.index;
  });
  if (store != stores.end()) {
    report_accesses(Report::kCountBeforeEndOfStore, region_of(as_address(count)), as_address(count),
                    {named_access(store->begun), access_of(self, site)},
                    "A block that waits for the count may come before the store has ended. The "
                    "thread must call tensor_store_wait() before it adds.");
  }
  fences_.release(as_address(count), fence_now(self, false));
  ++*count;
}

void Core::wait_for_block_count(Thread& self, const unsigned* count, unsigned value,
                                std::uintptr_t return_address) {
  if (*count != value) {
    self.block_count = count;
    self.awaited_count = value;
    suspend(self, Thread::State::kAtBlockCount, return_address);
  }
  access_block_count(self, count, return_address);
  fences_.acquire(self.fences, as_address(count));
}

// Where no thread can go on, one may be waiting for a count that only a later block changes.
bool Core::report_block_count() {
  const auto end = threads_.begin() + num_threads_;
  const auto self = std::find_if(threads_.begin(), end, [](const Thread& thread) {
    return thread.state == Thread::State::kAtBlockCount;
  });
  if (self == end) return false;
  const SourcePlace& here = source_place(self->wait_address);
  report_block(Report::kWaitForLaterBlock, self->wait_address,
               "  Warp " + std::to_string(self->warp()) + " lane " + std::to_string(self->lane()) +
                   " at " + short_location(here) + "   " + source_text(here) +
                   "\n  It waits for the count " + std::to_string(self->awaited_count) +
                   ", which is " + std::to_string(*self->block_count) +
                   ". No block that began before this one changes it, so that the wait may never "
                   "end. The launch ends here.\n");
  killed_ = true;
  return true;
}

void add_to_block_count(unsigned* count) {
  core.add_to_block_count(*running_thread(), count, as_address(__builtin_return_address(0)));
}

void wait_for_block_count(const unsigned* count, unsigned value) {
  core.wait_for_block_count(*running_thread(), count, value,
                            as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
