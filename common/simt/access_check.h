// The hot path: the checks of every access by a running thread.
//
// Most accesses are aligned, inside a live array, and ordered after all accesses in their cells.
// They are checked here in a few dozen instructions, without a call. on_access_slow() checks the
// others.
#ifndef CUFLASH_SIMT_ACCESS_CHECK_H_
#define CUFLASH_SIMT_ACCESS_CHECK_H_

#include "simt/core.h"

namespace cuflash::simt {

__attribute__((always_inline)) inline void Core::on_access(std::size_t thread,
                                                           std::uintptr_t address, std::size_t size,
                                                           AccessKind kind,
                                                           std::uintptr_t return_address) {
  Thread& self = threads_[thread];
  const std::uint16_t site = sites.known_id(return_address, kind, size);
  Region* region = global.owns(address) ? global.find(address) : &shared_.region();
  if (site > Sites::kForeign && region != nullptr && (address & (size - 1)) == 0 &&
      region->has(address, size) && !self.trace.full() &&
      check_quickly(self, *region, address, size, kind,
                    order.now() | static_cast<Stamp>(thread) << kSiteBits | site)) {
    self.trace.push(make_record(site, region->shared, address));
  } else {
    on_access_slow(self, address, size, kind, return_address);
  }
}

// True if the access needs no further check. It is then recorded in its cells.
__attribute__((always_inline)) inline bool Core::check_quickly(const Thread& self, Region& region,
                                                               std::uintptr_t address,
                                                               std::size_t size, AccessKind kind,
                                                               Stamp now) {
  std::size_t count = 0;
  Cell* cell = region.existing_cells(address, size, count);
  if (cell == nullptr || kind == AccessKind::kAtomic) return false;
  const bool shared = region.shared;
  // Several elements may belong to two arrays.
  if (count > 1 && shared && !shared_.is_dynamic(address)) return false;
  const bool is_read = kind == AccessKind::kRead;
  // A product or a store may read this memory; a store may be about to write it.
  if (shared && !is_read && (warpgroups.products_in_use() || tensor_stores.in_use())) return false;
  if (region.stored_to || (region.copied_from && !is_read)) return false;
  // If the last write is older than this stamp, the memory is not initialised, or the variable that
  // holds it is not known yet.
  const Stamp known_from = shared ? order.block_start() : is_read && !region.initialised ? 1 : 0;
  for (const Cell* const end = cell + count; cell != end; ++cell) {
    if (cell->write < known_from) return false;
    if (!order.by_barriers(cell->write, now, shared) && !order.by_warp(self, cell->write, now)) {
      return false;
    }
    if (is_read) {
      if (order.by_barriers(cell->read, now, shared)) {
        cell->read = now;
      } else if (!readers_suffice(self, *cell, now)) {
        return false;
      }
    } else {
      if (!order.by_barriers(cell->read, now, shared)) return false;
      if (!order.by_barriers(cell->other_read, now, shared)) return false;
      cell->write = now;
    }
  }
  return true;
}

// For a cell whose first reader is not ordered before this read: true if any thread that races with
// this read also races with a reader in the cell.
inline bool Core::readers_suffice(const Thread& self, const Cell& cell, Stamp now) const {
  // An earlier block of this launch: it races with every later writer.
  if (cell.read < order.block_start()) return true;
  // Both readers came after this thread's last event, from two warps or both from its own warp.
  return cell.read >= self.last_event && cell.other_read >= self.last_event &&
         (!same_warp(cell.read, cell.other_read) || same_warp(cell.read, now));
}

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_ACCESS_CHECK_H_
