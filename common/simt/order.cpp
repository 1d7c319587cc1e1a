#include "simt/order.h"

#include <algorithm>

namespace cuflash::simt {

void Order::begin_launch() {
  launch_start_ = next_moment();
  fences.begin_launch();
  blocks_run_.clear();
}

void Order::begin_block(std::uint64_t block, Thread* threads, int num_threads) {
  threads_ = threads;
  num_threads_ = num_threads;
  block_start_ = next_moment();
  fences.begin_block(block_start_);
  blocks_run_.emplace_back(block_start_, block);
  last_barrier_ = next_moment();
  last_warp_event_.assign((num_threads + 31) / 32, 0);
  knowledge_in_use_ = false;
  for (int t = 0; t < num_threads; ++t) {
    Thread& thread = threads[t];
    thread.last_event = last_barrier_;
    thread.fences = {};
    thread.knowledge = {};
    std::fill_n(thread.synced, 32, Stamp{0});
  }
}

std::uint64_t Order::block_of(Stamp stamp) const {
  const auto after =
      std::upper_bound(blocks_run_.begin(), blocks_run_.end(), stamp,
                       [](Stamp wanted, const auto& block) { return wanted < block.first; });
  return after == blocks_run_.begin() ? 0 : (after - 1)->second;
}

void Order::meet() {
  last_barrier_ = next_moment();
  met_.clear();
  for (int t = 0; t < num_threads_; ++t) {
    threads_[t].last_event = last_barrier_;
    met_.push_back(&threads_[t]);
  }
  share(met_);
}

unsigned Order::existing_lanes(int warp) const {
  return ~0u >> (32 - std::min(32, num_threads_ - warp * 32));
}

// The event is one of the whole warp if its mask contains all of the warp's lanes in the block,
// exited ones included, because the schedule decides which lanes have exited.
void Order::meet_in_warp(int warp, unsigned mask) {
  const Stamp now = next_moment();
  Thread* const lanes = &threads_[warp * 32];
  mask &= existing_lanes(warp);
  met_.clear();
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    Thread& lane = lanes[__builtin_ctz(rest)];
    lane.last_event = now;
    met_.push_back(&lane);
  }
  share(met_);
  if (mask == existing_lanes(warp)) return note_warp_event(warp, now);
  Stamp joined[32] = {};
  for (const Thread* lane : met_) {
    for (int k = 0; k < 32; ++k) joined[k] = std::max(joined[k], lane->synced[k]);
  }
  for (const Thread* lane : met_) joined[lane->lane()] = now;
  for (Thread* lane : met_) std::copy_n(joined, 32, lane->synced);
}

// Each of these threads gets the knowledge of all of them.
void Order::share(const std::vector<Thread*>& threads) {
  if (fences.in_use()) {
    std::vector<ThreadFences*> all;
    for (Thread* thread : threads) all.push_back(&thread->fences);
    fences.meet(all);
  }
  if (!knowledge_in_use_) return;
  Knowledge joined;
  for (const Thread* thread : threads) joined.join(thread->knowledge);
  for (Thread* thread : threads) thread->knowledge = joined;
}

void Order::note_moment(Thread& self) {
  knowledge_in_use_ = true;
  std::vector<Stamp>& before = self.knowledge.before;
  if (before.size() < static_cast<std::size_t>(num_threads_)) before.resize(num_threads_);
  const int first = self.warp() * 32;
  for (int t = first; t < std::min(first + 32, num_threads_); ++t) {
    before[t] = std::max({before[t], last_warp_event_[self.warp()], self.synced[t - first]});
  }
  before[self.index] = next_moment();
}

// Records the accesses before the fence, and separates them from the thread's later ones.
Fence Order::fence_now(const Thread& self, bool block_only) {
  Fence fence{block_start_,     block_only, last_barrier_, {}, self.knowledge.fenced_global,
              self.fences.known};
  for (int lane = 0; lane < 32; ++lane) {
    const Stamp met = std::max(last_warp_event_[self.warp()], self.synced[lane]);
    if (met > last_barrier_) fence.of_threads[self.warp() * 32 + lane] = met;
  }
  fence.of_threads[self.index] = next_moment();
  return fence;
}

void Order::fence(Thread& self, bool block_only) {
  fences.call(self.fences, fence_now(self, block_only));
}

void Order::release(Thread& self, std::uintptr_t address) {
  fences.release(address, fence_now(self, false));
}

void Order::fence_proxy(Thread& self, bool global) {
  note_moment(self);
  std::vector<Stamp>& fenced = global ? self.knowledge.fenced_global : self.knowledge.fenced;
  for (int t = 0; t < num_threads_; ++t) {
    Knowledge::note(fenced, t, std::max(self.knowledge.before[t], last_barrier_));
  }
  if (global) self.fences.proxied = self.fences.known;
}

bool Order::happens_before(Stamp earlier, const Thread& self, bool shared) const {
  const Stamp now = stamp_of(self, 0);
  if (by_barriers(earlier, now, shared)) return true;
  if (by_warp(self, earlier, now)) return true;
  if (earlier >= block_start_ && same_warp(earlier, now) &&
      earlier < self.synced[stamp_thread(earlier) % 32]) {
    return true;
  }
  if (earlier >= block_start_ && self.knowledge.has(earlier)) return true;
  return fences.happens_before(earlier, self.fences.known);
}

}  // namespace cuflash::simt
