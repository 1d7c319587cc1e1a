// bar.sync and bar.arrive: whole warps arrive at a barrier with a number. Threads that wait there
// are ordered after all arrivals.
#include "simt/named_barrier.h"

#include "simt/core.h"

namespace cuflash::simt {
namespace {

[[noreturn]] void end_launch(const Thread& self, Report report, const std::string& why) {
  report_block(report, self.wait_address,
               line_of(self, "reaches") + "\n  " + why + " The launch ends here.\n");
  core.kill_launch();
}

}  // namespace

void NamedBarriers::come(Thread& self, int number, int threads, Coming how,
                         std::uintptr_t return_address) {
  self.wait_address = return_address;
  self.named_barrier = number;
  const int count = static_cast<int>(barriers_.size());
  if (number < 1 || number >= count || threads < 32 || threads % 32 != 0) {
    end_launch(self, Report::kNamedBarrierOutOfRange,
               "The call is for barrier " + std::to_string(number) + " and " +
                   std::to_string(threads) +
                   " threads. Named barriers have the numbers 1 to 15, and the number of threads "
                   "is a multiple of 32.");
  }
  NamedBarrier& barrier = barriers_[number];
  ++core.events.barrier_calls;
  if (core.recorder.on()) {
    core.recorder.note_barrier_call(self, core.sites.id(return_address, AccessKind::kAtomic, 0),
                                    std::string(how == Coming::kArrives ? "arrives" : "waits") +
                                        " at named barrier " + std::to_string(number) +
                                        ", which counts " + std::to_string(threads) + " threads");
  }
  const auto kind = how == Coming::kArrives ? WarpEvent::Kind::kArrive : WarpEvent::Kind::kWait;
  core.block_recorder.mark_at_barrier(
      self, kind, return_address, {static_cast<std::uintptr_t>(number), true}, barrier.openings);
  check_comer(self, barrier, threads, how);
  barrier.threads = static_cast<std::size_t>(threads);
  barrier.comers.push_back({self.index, how, return_address});
  core.order.note_moment(self);
  barrier.joining.join(self.knowledge);
  if (how == Coming::kArrives) barrier.fences.push_back(self.fences);
  if (barrier.comers.size() == barrier.threads) {
    open(self, barrier);
  } else if (how != Coming::kArrives) {
    core.suspend(self, Thread::State::kAtNamedBarrier, return_address);
  }
}

void NamedBarriers::check_comer(const Thread& self, const NamedBarrier& barrier, int threads,
                                Coming how) const {
  const int number = self.named_barrier;
  const std::string name = "Barrier " + std::to_string(number);
  if (!barrier.comers.empty() && barrier.threads != static_cast<std::size_t>(threads)) {
    end_launch(self, Report::kNamedBarrierOfTwoSizes,
               name + " is called for " + std::to_string(threads) + " threads here, and for " +
                   std::to_string(barrier.threads) + " at " +
                   short_location(source_place(barrier.comers.front().return_address)) + '.');
  }
  if (self.knowledge.openings_of(number) < barrier.openings) {
    end_launch(self, Report::kNamedBarrierTooSoon,
               name +
                   " has opened before, and nothing orders that opening before this thread's "
                   "arrival, which could have been counted for it.");
  }
  for (const NamedBarrier::Comer& other : barrier.comers) {
    if (how != Coming::kArrives || other.thread != self.index) continue;
    end_launch(self, Report::kNamedBarrierTooSoon,
               "The thread has arrived at barrier " + std::to_string(number) + " at " +
                   short_location(source_place(other.return_address)) +
                   ", and the barrier has not opened since.");
  }
}

// Called by the last thread to arrive.
void NamedBarriers::open(const Thread& self, NamedBarrier& barrier) {
  const int num_warps = core.num_warps();
  std::vector<int> waiting(num_warps), going_on(num_warps);  // lanes, by warp
  std::vector<ThreadFences*> fences;
  for (ThreadFences& of_comer : barrier.fences) fences.push_back(&of_comer);
  for (const NamedBarrier::Comer& comer : barrier.comers) {
    const bool waits = comer.how != Coming::kArrives;
    ++(waits ? waiting : going_on)[comer.thread / 32];
    if (waits) fences.push_back(&core.thread(comer.thread).fences);
  }
  const Stamp now = core.order.next_moment();
  for (int warp = 0; warp < num_warps; ++warp) {
    for (const int lanes : {waiting[warp], going_on[warp]}) {
      if (lanes % 32 == 0) continue;
      end_launch(self, Report::kNamedBarrierWithoutWarp,
                 "Only " + std::to_string(lanes) + " lanes of warp " + std::to_string(warp) +
                     " have arrived at it.");
    }
    if (waiting[warp] == 0) continue;
    core.flush_warp(warp);
    core.order.note_warp_event(warp, now);
  }
  core.block_recorder.end_phase({static_cast<std::uintptr_t>(self.named_barrier), true});
  Knowledge::note(barrier.joining.openings, self.named_barrier, ++barrier.openings);
  for (const NamedBarrier::Comer& comer : barrier.comers) {
    if (comer.how == Coming::kArrives) continue;
    Thread& thread = core.thread(comer.thread);
    thread.knowledge.join(barrier.joining);
    thread.last_event = now;
    thread.state = Thread::State::kReady;
  }
  if (core.order.fences.in_use()) core.order.fences.meet(fences);
  barrier.comers.clear();
  barrier.joining = {};
  barrier.fences.clear();
}

void come_to_named_barrier(int barrier, int threads, Coming how) {
  core.named_barriers.come(*running_thread(), barrier, threads, how,
                           as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
