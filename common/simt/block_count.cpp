// Counts by which blocks wait for others: ld.acquire and red.release. Blocks run one after another,
// so a wait ends at once, or through another thread of the block, or never.
#include <device/ptx/block_count.h>

#include <algorithm>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

// Both are atomic operations of 4 bytes.
std::uint16_t access_block_count(Thread& self, const unsigned* count,
                                 std::uintptr_t return_address) {
  constexpr AccessKind kKind = AccessKind::kAtomic;
  const std::uint16_t site = core.sites.id(return_address, kKind, sizeof *count);
  if (!counts_accesses()) return site;
  if (core.recorder.on()) {
    core.log_access(self.index, as_address(count), sizeof *count, kKind, return_address);
  }
  core.check_and_count(self, as_address(count), sizeof *count, site);
  return site;
}

}  // namespace

// A thread that has waited for the count may access the targets of this thread's stores.
void add_to_block_count(unsigned* count) {
  Thread& self = *running_thread();
  const std::uintptr_t address = as_address(count);
  const std::uint16_t site =
      access_block_count(self, count, as_address(__builtin_return_address(0)));
  if (const TensorStore* const store = core.tensor_stores.unfinished_of(self); store != nullptr) {
    report_accesses(Report::kCountBeforeEndOfStore, core.region_of(address), address,
                    {named_access(store->begun), access_of(self, site)},
                    "A block that waits for the count may proceed before the store has ended. The "
                    "thread must call tensor_store_wait() before it adds.");
  }
  core.order.release(self, address);
  ++*count;
}

void wait_for_block_count(const unsigned* count, unsigned value) {
  Thread& self = *running_thread();
  const std::uintptr_t return_address = as_address(__builtin_return_address(0));
  if (*count != value) {
    self.block_count = count;
    self.awaited_count = value;
    core.suspend(self, Thread::State::kAtBlockCount, return_address);
  }
  access_block_count(self, count, return_address);
  core.order.fences.acquire(self.fences, as_address(count));
}

// If no thread can go on, one may be waiting for a count that only a later block changes.
bool Core::report_block_count() {
  const auto end = threads_.begin() + num_threads_;
  const auto self = std::find_if(threads_.begin(), end, [](const Thread& thread) {
    return thread.state == Thread::State::kAtBlockCount;
  });
  if (self == end) return false;
  report_block(
      Report::kWaitForLaterBlock, self->wait_address,
      line_of(*self, "at") + "\n  It waits until the count is " +
          std::to_string(self->awaited_count) + "; it is " + std::to_string(*self->block_count) +
          ". No block that began before this one changes it, so the wait may never end. The "
          "launch ends here.\n");
  return true;
}

}  // namespace cuflash::simt
