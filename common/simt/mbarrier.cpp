// mbarrier: phases, the order between arrivals and waits, and deadlocks.
#include "simt/mbarrier.h"

#include <device/ptx/mbarrier.h>

#include <cstring>

#include "simt/access_check.h"

namespace cuflash::simt {
namespace {

constexpr std::size_t kMbarrierBytes = sizeof(std::uint64_t);
constexpr unsigned kMaxArrivals = (1u << 20) - 1;

}  // namespace

void Mbarriers::init(const Thread& self, std::uintptr_t address, unsigned arrivals,
                     std::uintptr_t return_address) {
  const std::uint16_t site =
      core.sites.id(return_address, AccessKind::kWrite, kMbarrierBytes, kMbarrierBytes);
  core.check_operand(self, address, kMbarrierBytes, site, true, "mbarrier.init writes");
  bool shared = true;
  if (counts_accesses()) core.check(self, address, kMbarrierBytes, site, shared);
  std::memset(reinterpret_cast<void*>(address), 0xff, kMbarrierBytes);
  Mbarrier& barrier = list_.emplace_back();
  at_[address] = &barrier;
  barrier.address = address;
  barrier.index = list_.size() - 1;
  barrier.arrivals = barrier.arrivals_left = arrivals;
  barrier.initialised = core.order.stamp_of(self, site);
  barrier.seen.resize(core.num_warps());
  if (core.recorder.on()) {
    core.recorder.note_barrier_call(
        self, site, "initialises " + name_of(barrier) + " for " + counted(arrivals, "arrival"));
  }
  if (arrivals >= 1 && arrivals <= kMaxArrivals) return;
  report(Report::kMbarrierOutOfRange, barrier, {access_of(self, site)},
         "The number of arrivals of a phase must be from 1 to 1048575; it is " +
             std::to_string(arrivals) + ". The launch ends here.");
  core.kill_launch();
}

void Mbarriers::fence_inits(const Thread& self) {
  for (Mbarrier& barrier : list_) {
    if (barrier.init_fenced == 0 &&
        same_thread(barrier.initialised, core.order.stamp_of(self, 0))) {
      barrier.init_fenced = core.order.stamp_of(self, 0);
    }
  }
}

Mbarrier& Mbarriers::at(const Thread& self, std::uintptr_t address, std::uint16_t site) {
  core.check_operand(self, address, kMbarrierBytes, site, true, "An mbarrier lies in");
  const auto found = at_.find(address);
  if (found == at_.end()) {
    report_accesses(Report::kMbarrierNotInitialised, &core.shared().region(), address,
                    {access_of(self, site)},
                    "No thread of this block has called mbarrier_init() for it. The launch ends "
                    "here.");
    core.kill_launch();
  }
  Mbarrier& barrier = *found->second;
  if (!core.order.happens_before(barrier.initialised, self, true)) {
    report_race(self, core.shared().region(), address, barrier.initialised, site);
  }
  return barrier;
}

void Mbarriers::arrive(Thread& self, std::uintptr_t address, unsigned expected_bytes,
                       std::uintptr_t return_address) {
  const std::uint16_t site =
      core.sites.id(return_address, AccessKind::kAtomic, kMbarrierBytes, kMbarrierBytes);
  Mbarrier& barrier = at(self, address, site);
  ++core.events.barrier_calls;
  core.block_recorder.mark_at_barrier(self, WarpEvent::Kind::kArrive, return_address,
                                      {address, false}, barrier.phase);
  if (core.recorder.on()) {
    const std::string bytes =
        expected_bytes == 0 ? "" : " for " + std::to_string(expected_bytes) + " bytes";
    core.recorder.note_barrier_call(self, site, "arrives at " + name_of(barrier) + bytes);
  }
  const NamedAccess here = access_of(self, site);
  if (barrier.arrivals_left == 0) {
    report(Report::kTooManyArrivals, barrier, {named_access(barrier.last_arrival), here},
           "Phase " + std::to_string(barrier.phase) + " already has " +
               counted(barrier.arrivals, "arrival") +
               " and still expects bytes. The launch ends here.");
    core.kill_launch();
  }
  if (self.knowledge.phases_of(barrier.index) < barrier.phase) {
    const std::string phase = std::to_string(barrier.phase - 1);
    report(Report::kArrivalInLaterPhase, barrier, {named_access(barrier.last_arrival), here},
           "Phase " + phase + " ended with " + counted(barrier.arrivals, "arrival") +
               ". Nothing orders its end before this arrival, which could be one too "
               "many.");
  }
  barrier.last_arrival = core.order.stamp_of(self, site);
  barrier.arrived.push_back(barrier.last_arrival);
  barrier.bytes_expected += expected_bytes;
  --barrier.arrivals_left;
  core.order.note_moment(self);
  barrier.joining.join(self.knowledge);
  end_phase_if_over(self, barrier);
}

void Mbarriers::add_bytes(Thread& self, Mbarrier& barrier, std::size_t bytes, Stamp copy) {
  barrier.bytes_copied += static_cast<std::int64_t>(bytes);
  barrier.last_copy = copy;
  end_phase_if_over(self, barrier);
}

// Called after an arrival or a copy of this thread, which may have ended the phase.
void Mbarriers::end_phase_if_over(Thread& self, Mbarrier& barrier) {
  if (barrier.arrivals_left != 0 || barrier.bytes_copied < barrier.bytes_expected) return;
  if (barrier.bytes_copied > barrier.bytes_expected) {
    report(Report::kMoreBytesThanExpected, barrier,
           {named_access(barrier.last_arrival), named_access(barrier.last_copy)},
           "Phase " + std::to_string(barrier.phase) + " expects " +
               std::to_string(barrier.bytes_expected) + " bytes, and " +
               std::to_string(barrier.bytes_copied) + " are copied. The launch ends here.");
    core.kill_launch();
  }
  // The end is ordered for the last thread to arrive if all other arrivals are.
  bool knows = barrier.last_copy == 0;
  for (const Stamp arrival : barrier.arrived) {
    knows = knows && core.order.happens_before(arrival, self, true);
  }
  core.block_recorder.end_phase({barrier.address, false});
  ++barrier.phase;
  barrier.arrivals_left = barrier.arrivals;
  barrier.bytes_expected = barrier.bytes_copied = 0;
  barrier.arrived.clear();
  barrier.last_copy = 0;
  Knowledge::note(barrier.joining.phases, barrier.index, barrier.phase);
  barrier.released = barrier.joining;
  if (knows) Knowledge::note(self.knowledge.phases, barrier.index, barrier.phase);
  for (int t = 0; t < core.num_threads(); ++t) {
    Thread& waiting = core.thread(t);
    if (waiting.state == Thread::State::kAtMbarrier && waiting.mbarrier == &barrier) {
      waiting.state = Thread::State::kReady;
    }
  }
}

void Mbarriers::wait(Thread& self, std::uintptr_t address, unsigned parity,
                     std::uintptr_t return_address) {
  const std::uint16_t site =
      core.sites.id(return_address, AccessKind::kAtomic, kMbarrierBytes, kMbarrierBytes);
  if (self.lags) core.suspend(self, Thread::State::kReady, return_address);
  Mbarrier& barrier = at(self, address, site);
  ++core.events.barrier_calls;
  if (core.recorder.on()) {
    core.recorder.note_barrier_call(
        self, site, "waits for " + name_of(barrier) + " with parity " + std::to_string(parity));
  }
  if (parity > 1) {
    report(Report::kMbarrierOutOfRange, barrier, {access_of(self, site)},
           "The parity of a phase is 0 or 1; this is " + std::to_string(parity) +
               ". The launch ends here.");
    core.kill_launch();
  }
  // The phase with this parity: this thread's next phase or the one before it.
  const int next = self.knowledge.phases_of(barrier.index);
  const int phase = next % 2 == static_cast<int>(parity) ? next : next - 1;
  core.block_recorder.mark_at_barrier(self, WarpEvent::Kind::kWait, return_address,
                                      {address, false}, phase);
  while (barrier.phase <= phase) {
    self.mbarrier = &barrier;
    core.suspend(self, Thread::State::kAtMbarrier, return_address);
  }
  Mbarrier::Seen& seen = barrier.seen[self.warp()][parity];
  const bool in_time = barrier.phase == phase + 1;
  if (in_time && seen.phase != phase) seen = {phase, barrier.released};
  const bool warp_in_time = seen.phase == phase;
  if (!in_time) {
    report(Report::kWaitPhaseLate, barrier,
           {named_access(barrier.last_arrival), access_of(self, site)},
           "The thread waits for " +
               (phase < 0 ? "the phase before the first" : "phase " + std::to_string(phase)) +
               ", but phase " + std::to_string(barrier.phase - 1) +
               " has ended as well. By its parity the phase looks unfinished again: on a GPU the "
               "thread would wait for a later one." +
               (warp_in_time ? " Another lane of the warp was in time, but did not wait for this "
                               "lane before the next phase could end."
                             : ""));
  }
  self.knowledge.join(warp_in_time ? seen.released : barrier.released);
  core.tensor_copies.on_wait(self, barrier, phase);
}

// ---- Reports -----------------------------------------------------------------------------------

std::string Mbarriers::name_of(const Mbarrier& barrier) const {
  return element_name(&core.shared().region(), barrier.address,
                      core.sites[stamp_site(barrier.initialised)]);
}

void Mbarriers::report(Report report, const Mbarrier& barrier,
                       const std::vector<NamedAccess>& accesses, const std::string& what) const {
  report_accesses(report, &core.shared().region(), barrier.address, accesses, what,
                  &core.sites[stamp_site(barrier.initialised)]);
}

// For when no thread can go on and some wait at mbarriers or named barriers: reports the state of
// their mbarriers, and the place at which each warp waits.
void Core::report_deadlock() {
  std::string waits;
  std::uintptr_t where = 0;
  const auto arrivals_at = [&](int number) {
    const NamedBarrier& barrier = named_barriers[number];
    return std::to_string(number) + ": " + std::to_string(barrier.comers.size()) + " of " +
           counted(static_cast<std::int64_t>(barrier.threads), "thread");
  };
  std::vector<const Mbarrier*> shown;
  std::vector<FindingBarrier> states;
  std::vector<std::pair<int, std::uintptr_t>> told;  // warps and places
  for (int t = 0; t < num_threads_; ++t) {
    const Thread& thread = threads_[t];
    if (thread.state == Thread::State::kExited) continue;
    const bool at_mbarrier = thread.state == Thread::State::kAtMbarrier;
    const bool at_named = thread.state == Thread::State::kAtNamedBarrier;
    if ((at_mbarrier || at_named) && where == 0) where = thread.wait_address;
    if (at_mbarrier && std::find(shown.begin(), shown.end(), thread.mbarrier) == shown.end()) {
      shown.push_back(thread.mbarrier);
      const Mbarrier& barrier = *thread.mbarrier;
      states.push_back({mbarriers.name_of(barrier), barrier.phase,
                        barrier.arrivals - barrier.arrivals_left, barrier.arrivals,
                        barrier.bytes_copied, barrier.bytes_expected});
    }
    if (std::count(told.begin(), told.end(), std::pair(thread.warp(), thread.wait_address)) != 0) {
      continue;
    }
    told.emplace_back(thread.warp(), thread.wait_address);
    waits += line_of(thread, "waits at") +
             (at_mbarrier ? "   for " + mbarriers.name_of(*thread.mbarrier)
              : at_named  ? "   at barrier " + arrivals_at(thread.named_barrier)
                          : "") +
             '\n';
  }
  if (where == 0 && report_block_count()) return;
  report_block(states.empty() ? Report::kNamedBarrierDeadlock : Report::kMbarrierDeadlock, where,
               waits + "  No thread can go on. The launch ends here.\n", states);
}

void init_mbarrier(void* barrier, unsigned arrivals) {
  core.mbarriers.init(*running_thread(), as_address(barrier), arrivals,
                      as_address(__builtin_return_address(0)));
}

void fence_mbarrier_inits() { core.mbarriers.fence_inits(*running_thread()); }

void arrive_at_mbarrier(void* barrier, unsigned expected_bytes) {
  core.mbarriers.arrive(*running_thread(), as_address(barrier), expected_bytes,
                        as_address(__builtin_return_address(0)));
}

void wait_at_mbarrier(void* barrier, unsigned parity) {
  core.mbarriers.wait(*running_thread(), as_address(barrier), parity,
                      as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
