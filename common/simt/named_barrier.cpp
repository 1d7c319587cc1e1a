// bar.sync: whole warps meet at a barrier with a number, and are ordered as by __syncthreads().
#include "simt/named_barrier.h"

#include <device/ptx/named_barrier.h>

#include "simt/core.h"

namespace cuflash::simt {

void Core::sync_named_barrier(Thread& self, int number, int threads,
                              std::uintptr_t return_address) {
  self.wait_address = return_address;
  self.named_barrier = number;
  const int count = static_cast<int>(named_barriers_.size());
  if (number < 1 || number >= count || threads < 32 || threads % 32 != 0) {
    report_named_barrier(self, "NAMED BARRIER OUT OF RANGE",
                         "This is barrier " + std::to_string(number) + " for " +
                             std::to_string(threads) +
                             " threads. A block has barriers 1 to 15 beside __syncthreads(), for "
                             "whole warps.");
  }
  NamedBarrier& barrier = named_barriers_[number];
  const auto expected = static_cast<std::size_t>(threads);
  if (!barrier.arrived.empty() && barrier.threads != expected) {
    const Thread& other = threads_[barrier.arrived.front()];
    report_named_barrier(self, "NAMED BARRIER OF TWO SIZES",
                         "Barrier " + std::to_string(number) + " is for " +
                             std::to_string(threads) + " threads here, and for " +
                             std::to_string(barrier.threads) + " at " +
                             short_location(source_place(other.wait_address)) + '.');
  }
  barrier.threads = expected;
  barrier.arrived.push_back(self.index);
  if (barrier.arrived.size() < expected) {
    suspend(self, Thread::State::kAtNamedBarrier, return_address);
  } else {
    open_named_barrier(self, barrier);
  }
}

// Called by the last thread to arrive.
void Core::open_named_barrier(const Thread& self, NamedBarrier& barrier) {
  std::vector<Thread*> met;
  std::vector<ThreadFences*> fences;
  std::vector<int> lanes(last_warp_event_.size());  // by warp
  for (const int t : barrier.arrived) {
    met.push_back(&threads_[t]);
    fences.push_back(&threads_[t].fences);
    ++lanes[t / 32];
  }
  const Stamp now = next_moment();
  for (std::size_t warp = 0; warp < lanes.size(); ++warp) {
    if (lanes[warp] == 0) continue;
    if (lanes[warp] != 32) {
      report_named_barrier(self, "NAMED BARRIER WITHOUT A WHOLE WARP",
                           "Only " + std::to_string(lanes[warp]) + " lanes of warp " +
                               std::to_string(warp) + " have come to it.");
    }
    flush_warp(static_cast<int>(warp));
    last_warp_event_[warp] = now;
  }
  knowledge_in_use_ = true;
  for (Thread* const thread : met) {
    note_moment(*thread);
    thread->last_event = now;
    thread->state = Thread::State::kReady;
  }
  share_knowledge(met);
  if (fences_.in_use()) fences_.meet(fences);
  barrier.arrived.clear();
}

void Core::report_named_barrier(const Thread& self, const std::string& title,
                                const std::string& why) {
  const SourcePlace& here = source_place(self.wait_address);
  report_block(FindingKind::kDivergentBarrier, self.wait_address, title,
               "  Warp " + std::to_string(self.warp()) + " lane " + std::to_string(self.lane()) +
                   " comes to " + short_location(here) + "   " + source_text(here) + "\n  " + why +
                   " The launch ends here.\n");
  kill_launch();
}

void sync_named_barrier(int barrier, int threads) {
  core.sync_named_barrier(*running_thread(), barrier, threads,
                          as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
