// The copies of cp.async that have begun and have not taken effect.
#ifndef CUFLASH_SIMT_CP_ASYNC_H_
#define CUFLASH_SIMT_CP_ASYNC_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <unordered_map>

#include "simt/memory.h"

namespace cuflash::simt {

// A copy of 16 bytes in flight.
struct AsyncCopy {
  std::uintptr_t to;                   // in shared memory
  std::optional<std::uintptr_t> from;  // in global memory; without it, it writes zeros
  std::size_t group;                   // of its thread, counted from 0
  std::uint16_t read_site;
  Stamp begun;  // when, by which thread, at which site that writes
};

// The copies of one thread, oldest first.
struct ThreadCopies {
  std::list<AsyncCopy> copies;
  std::size_t groups = 0;  // that it has committed
};

struct CopiesInFlight {
  std::unordered_map<std::uintptr_t, const AsyncCopy*> to;  // by destination: of this block
  // The sites of this launch that begin copies, and those of them with a copy that was met in
  // flight.
  std::set<int> write_sites, reported_sites;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_CP_ASYNC_H_
