// Barriers for some warps of the running block.
#ifndef CUFLASH_SIMT_NAMED_BARRIER_H_
#define CUFLASH_SIMT_NAMED_BARRIER_H_

#include <device/ptx/named_barrier.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "simt/fences.h"
#include "simt/knowledge.h"

namespace cuflash::simt {

struct Thread;

struct NamedBarrier {
  // A thread that has arrived since the barrier last opened.
  struct Comer {
    int thread;
    Coming how;
    std::uintptr_t return_address;
  };
  std::size_t threads = 0;  // at which it opens, from the first arrival
  std::vector<Comer> comers;
  int openings = 0;

  // The knowledge of the threads at their arrivals.
  Knowledge joining;
  std::deque<ThreadFences> fences;
};

class NamedBarriers {
 public:
  void begin_block() { barriers_ = {}; }
  // A thread arrives, and waits unless `how` is kArrives.
  void come(Thread& self, int number, int threads, Coming how, std::uintptr_t return_address);
  const NamedBarrier& operator[](int number) const { return barriers_[number]; }

 private:
  void check_comer(const Thread& self, const NamedBarrier& barrier, int threads, Coming how) const;
  void open(const Thread& self, NamedBarrier& barrier);

  std::array<NamedBarrier, 16> barriers_;  // 0 is __syncthreads()
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_NAMED_BARRIER_H_
