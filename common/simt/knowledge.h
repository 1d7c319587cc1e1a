// The order that a thread has from mbarriers, named barriers and proxy fences, in addition to the
// order of __syncthreads() and __syncwarp(). An arrival passes it on, and a wait joins it.
#ifndef CUFLASH_SIMT_KNOWLEDGE_H_
#define CUFLASH_SIMT_KNOWLEDGE_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "simt/memory.h"

namespace cuflash::simt {

struct Knowledge {
  // By thread of the block: its accesses before this moment happened before this thread's next one.
  std::vector<Stamp> before;
  // By thread: its accesses before this moment happened before a proxy fence, and the fence before
  // this thread's next access. For fences of shared memory and of global memory.
  std::vector<Stamp> fenced, fenced_global;
  // By mbarrier: the number of its phases that ended before this thread's next access.
  std::vector<int> phases;
  // By named barrier: the number of its openings before this thread's next access.
  std::vector<int> openings;

  bool has(Stamp access) const { return lies_before(access, before); }
  bool has_fenced(Stamp access) const { return lies_before(access, fenced); }
  bool has_fenced_global(Stamp access) const { return lies_before(access, fenced_global); }
  int phases_of(std::size_t mbarrier) const { return count(phases, mbarrier); }
  int openings_of(std::size_t named_barrier) const { return count(openings, named_barrier); }
  void join(const Knowledge& other) {
    join(before, other.before);
    join(fenced, other.fenced);
    join(fenced_global, other.fenced_global);
    join(phases, other.phases);
    join(openings, other.openings);
  }
  template <class T>
  static void note(std::vector<T>& values, std::size_t index, T value) {
    if (values.size() <= index) values.resize(index + 1);
    values[index] = std::max(values[index], value);
  }

 private:
  static int count(const std::vector<int>& counts, std::size_t index) {
    return index < counts.size() ? counts[index] : 0;
  }
  static bool lies_before(Stamp access, const std::vector<Stamp>& moments) {
    const auto thread = static_cast<std::size_t>(stamp_thread(access));
    return thread < moments.size() && access < moments[thread];
  }
  template <class T>
  static void join(std::vector<T>& values, const std::vector<T>& others) {
    if (values.size() < others.size()) values.resize(others.size());
    for (std::size_t i = 0; i < others.size(); ++i) values[i] = std::max(values[i], others[i]);
  }
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_KNOWLEDGE_H_
