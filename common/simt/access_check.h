// The hot path: what happens at every access of a running thread.
//
// Most accesses are of one kind: aligned, inside a live array, ordered after everything that the
// cells remember. Those are settled here in a few dozen instructions, without a call;
// on_access_slow() deals with all others.
#ifndef CUFLASH_SIMT_ACCESS_CHECK_H_
#define CUFLASH_SIMT_ACCESS_CHECK_H_

#include "simt/core.h"

namespace cuflash::simt {

__attribute__((always_inline)) inline void Core::on_access(std::size_t thread,
                                                           std::uintptr_t address, std::size_t size,
                                                           AccessKind kind,
                                                           std::uintptr_t return_address) {
  Thread& self = threads_[thread];
  const std::uint16_t site = sites.known_id(return_address, size);
  Region* region = global.owns(address) ? global.find(address) : &shared_.region();
  if (site != 0 && region != nullptr && (address & (size - 1)) == 0 && region->has(address, size) &&
      !self.trace.full() &&
      check_quickly(self, *region, address, size, kind,
                    now_ | static_cast<Stamp>(thread) << kSiteBits | site)) {
    self.trace.push(make_record(site, region->shared, address));
  } else {
    on_access_slow(self, address, size, kind, return_address);
  }
}

// True if the access with this stamp happened before what a thread does under `now`, by the order
// of launches, blocks and barriers, and of a thread's own accesses.
inline bool Core::ordered_by_barriers(Stamp earlier, Stamp now, bool shared) const {
  if (earlier >= block_start_) return earlier < last_barrier_ || same_thread(earlier, now);
  // An earlier block had this shared memory for itself; in global memory nothing orders two blocks.
  return shared || earlier < launch_start_;
}

// The same by the events of a whole warp, of an access in this block.
inline bool Core::ordered_by_warp(const Thread& self, Stamp earlier, Stamp now) const {
  return earlier >= block_start_ && same_warp(earlier, now) &&
         earlier < last_warp_event_[self.warp()];
}

// True if the access needs no closer look; its cells then know of it.
__attribute__((always_inline)) inline bool Core::check_quickly(const Thread& self, Region& region,
                                                               std::uintptr_t address,
                                                               std::size_t size, AccessKind kind,
                                                               Stamp now) {
  std::size_t count = 0;
  Cell* cell = region.existing_cells(address, size, count);
  if (cell == nullptr || kind == AccessKind::kAtomic) return false;
  const bool shared = region.shared;
  const bool is_read = kind == AccessKind::kRead;
  // A smaller stamp of the last write stands for memory that is not initialised, or whose place
  // among the variables is not yet known.
  const Stamp known_from = shared ? block_start_ : is_read && !region.initialised ? 1 : 0;
  for (const Cell* const end = cell + count; cell != end; ++cell) {
    if (cell->write < known_from) return false;
    if (!ordered_by_barriers(cell->write, now, shared) &&
        !ordered_by_warp(self, cell->write, now)) {
      return false;
    }
    if (is_read) {
      if (ordered_by_barriers(cell->read, now, shared)) {
        cell->read = now;
      } else if (!readers_suffice(self, *cell, now)) {
        return false;
      }
    } else {
      if (!ordered_by_barriers(cell->read, now, shared)) return false;
      if (!ordered_by_barriers(cell->other_read, now, shared)) return false;
      cell->write = now;
    }
  }
  return true;
}

// The cell's first reader is not ordered before this read. True if whoever races with this read
// also races with a reader that the cell remembers.
inline bool Core::readers_suffice(const Thread& self, const Cell& cell, Stamp now) const {
  // An earlier block of this launch: it races with every later writer.
  if (cell.read < block_start_) return true;
  // Two readers since this thread last met others, of two warps or both of this thread's own.
  return cell.read >= self.last_event && cell.other_read >= self.last_event &&
         (!same_warp(cell.read, cell.other_read) || same_warp(cell.read, now));
}

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_ACCESS_CHECK_H_
