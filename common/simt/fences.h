// Values that pass from thread to thread through a fence and an atomic operation.
//
// One thread writes, calls __threadfence() and does an atomic operation. Later another thread does
// an atomic operation on the same address: what follows it happens after all that came before the
// fence. In this way the last block of a grid, found by a counter, can read the others' results.
// block_count_add() is a fence and such an operation in one; block_count_wait() passes nothing on.
#ifndef CUFLASH_SIMT_FENCES_H_
#define CUFLASH_SIMT_FENCES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "simt/memory.h"

namespace cuflash::simt {

struct Channel;
// For each channel, the number of its fences that are ordered before a thread's next access.
using KnownFences = std::map<const Channel*, std::size_t>;

// The accesses that happened before a fence.
struct Fence {
  Stamp block_start = 0;
  bool block_only = false;          // __threadfence_block()
  Stamp all = 0;                    // all threads of the block: what they did before this moment
  std::map<int, Stamp> of_threads;  // these threads: what each did before its own moment
  // By thread: its accesses before this moment came before a proxy fence of global memory, and the
  // proxy fence before this fence.
  std::vector<Stamp> proxied;
  KnownFences known;

  // True if the access, made by this block or a later one, lies before the fence; if asked, with a
  // proxy fence between them.
  bool covers(Stamp access, bool proxy_fenced) const;
};

// An address at which threads that had called a fence did atomic operations.
struct Channel {
  std::vector<std::shared_ptr<const Fence>> fences;  // block after block
  KnownFences known;                                 // of all of these
};

// The fences that one thread has called, and those that are ordered before its next access.
struct ThreadFences {
  std::shared_ptr<const Fence> device, block;  // its last calls; null for none
  KnownFences known;
  KnownFences proxied;  // those before its last proxy fence of global memory
};

// The channels of a launch.
class Fences {
 public:
  void begin_launch();
  void begin_block(Stamp block_start);
  // True if any thread has called a fence in this launch.
  bool in_use() const { return in_use_; }

  void call(ThreadFences& self, Fence fence);
  void atomic(ThreadFences& self, bool shared, std::uintptr_t address);
  void release(std::uintptr_t address, Fence fence);
  void acquire(ThreadFences& self, std::uintptr_t address);
  // An event of these threads: each now has the calls and the knowledge of all of them.
  void meet(const std::vector<ThreadFences*>& threads) const;
  // True if one of the known fences comes after the access; if asked, with a proxy fence between
  // them.
  bool happens_before(Stamp access, const KnownFences& known, bool proxy_fenced = false) const;

 private:
  Channel& channel_at(bool shared, std::uintptr_t address);
  static void learn_from(ThreadFences& self, const Channel& channel);
  static void announce(Channel& channel, const std::shared_ptr<const Fence>& fence);
  bool in_use_ = false;
  Stamp block_start_ = 0;
  std::deque<Channel> channels_;
  std::unordered_map<std::uintptr_t, Channel*> of_global_, of_shared_;  // by address
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_FENCES_H_
