// What happened before what: the simulator's clock, and the events that order accesses.
// KNOWLEDGE.md explains both.
#ifndef CUFLASH_SIMT_ORDER_H_
#define CUFLASH_SIMT_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "simt/fences.h"
#include "simt/memory.h"
#include "simt/thread.h"

namespace cuflash::simt {

class Order {
 public:
  void begin_launch();
  void begin_block(std::uint64_t block, Thread* threads, int num_threads);

  // ---- The clock -------------------------------------------------------------------------------

  // Moments are stamps of thread 0 and site 0. Every launch, block, barrier, fence and __syncwarp()
  // begins a new epoch; everything with a smaller stamp came before it.
  Stamp next_moment() { return now_ += kOneEpoch; }
  Stamp now() const { return now_; }
  Stamp stamp_of(const Thread& self, std::uint16_t site) const {
    return now_ | static_cast<Stamp>(self.index) << kSiteBits | site;
  }
  Stamp launch_start() const { return launch_start_; }
  Stamp block_start() const { return block_start_; }
  Stamp last_barrier() const { return last_barrier_; }
  // The block that ran at this moment.
  std::uint64_t block_of(Stamp stamp) const;

  // ---- Events ----------------------------------------------------------------------------------

  // __syncthreads(): an event of all threads of the block.
  void meet();
  // __syncwarp(): earlier accesses of the lanes in the mask happen before later ones of these
  // lanes.
  void meet_in_warp(int warp, unsigned mask);
  // An event of all existing lanes of the warp, at this moment.
  void note_warp_event(int warp, Stamp moment) { last_warp_event_[warp] = moment; }
  unsigned existing_lanes(int warp) const;
  // Must precede the passing on of the thread's knowledge: adds to it the order from events of its
  // warp, and the thread's own accesses.
  void note_moment(Thread& self);
  // __threadfence() or __threadfence_block().
  void fence(Thread& self, bool block_only);
  // A __threadfence() and an atomic operation in one.
  void release(Thread& self, std::uintptr_t address);
  // A proxy fence for shared or for global memory.
  void fence_proxy(Thread& self, bool global);

  // ---- Questions -------------------------------------------------------------------------------

  // True if the access with stamp `earlier` happened before the thread's current access.
  bool happens_before(Stamp earlier, const Thread& self, bool shared) const;
  // True if the order of launches, blocks and barriers makes it so, or if the same thread made it.
  bool by_barriers(Stamp earlier, Stamp now, bool shared) const {
    if (earlier >= block_start_) return earlier < last_barrier_ || same_thread(earlier, now);
    // Only one block at a time uses shared memory; in global memory nothing orders two blocks.
    return shared || earlier < launch_start_;
  }
  // True if an event of the whole warp makes it so, for an access made in this block.
  bool by_warp(const Thread& self, Stamp earlier, Stamp now) const {
    return earlier >= block_start_ && same_warp(earlier, now) &&
           earlier < last_warp_event_[self.warp()];
  }

  Fences fences;

 private:
  void share(const std::vector<Thread*>& threads);
  Fence fence_now(const Thread& self, bool block_only);

  Stamp now_ = kHostStamp;
  Stamp launch_start_ = 0;
  Stamp block_start_ = 0;
  Stamp last_barrier_ = 0;
  std::vector<Stamp> last_warp_event_;                       // by warp: of all its lanes
  std::vector<std::pair<Stamp, std::uint64_t>> blocks_run_;  // start, block
  Thread* threads_ = nullptr;                                // of the block
  int num_threads_ = 0;
  bool knowledge_in_use_ = false;  // in this block
  std::vector<Thread*> met_;       // at the last event
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_ORDER_H_
