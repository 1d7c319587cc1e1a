// The mbarriers of the running block.
#ifndef CUFLASH_SIMT_MBARRIER_H_
#define CUFLASH_SIMT_MBARRIER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "simt/knowledge.h"

namespace cuflash::simt {

struct Mbarrier {
  std::uintptr_t address = 0;
  std::size_t index = 0;  // in the order of initialisation
  unsigned arrivals = 0;  // of a phase
  Stamp initialised = 0, init_fenced = 0;

  int phase = 0;  // the current one, counted from 0
  unsigned arrivals_left = 0;
  std::int64_t bytes_expected = 0, bytes_copied = 0;
  std::vector<Stamp> arrived;  // who, and where
  Stamp last_copy = 0;
  Stamp last_arrival = 0;  // of any phase

  Knowledge joining;   // of all that have arrived
  Knowledge released;  // of those that had arrived when the last phase ended

  // By warp and parity: the last phase that one of its lanes has waited for in time, and what it
  // learned. A lane that comes too late is reported, and goes on as if it had come with that one.
  struct Seen {
    int phase = -2;
    Knowledge released;
  };
  std::vector<std::array<Seen, 2>> seen;
};

struct Mbarriers {
  std::deque<Mbarrier> list;
  std::unordered_map<std::uintptr_t, Mbarrier*> at;  // by address: the last one initialised there
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_MBARRIER_H_
