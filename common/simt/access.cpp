// What is checked at every access of a running thread.
#include <sys/mman.h>

#include "simt/core.h"

namespace cuflash::simt {

void Core::access(std::uintptr_t address, std::size_t size, AccessKind kind,
                  std::uintptr_t return_address) {
  Thread& thread = *current_thread;
  const std::uint16_t site = sites.id(return_address, kind, size);
  bool is_shared = false;
  if (global.owns(address)) {
    Region* region = global.find(address);
    if (region == nullptr) {
      report_access(FindingKind::kOutOfBounds, nullptr, address, site,
                    "It is global memory that was never allocated.");
    } else if (region->freed) {
      report_access(FindingKind::kUseAfterFree, region, address, site,
                    "It lies in an allocation that was freed before the launch.");
    } else if (!region->has(address, size)) {
      const bool before = address < region->begin;
      const std::size_t distance =
          before ? region->begin - address : address + size - region->begin - region->bytes;
      report_access(FindingKind::kOutOfBounds, region, address, site,
                    "It reaches " + std::to_string(distance) + " bytes " +
                        (before ? "before the start" : "past the end") + " of an allocation of " +
                        std::to_string(region->bytes) + " bytes.");
    } else {
      check_region(*region, address, size, kind, site);
    }
  } else if (address - reinterpret_cast<std::uintptr_t>(launch_->args) < launch_->args_bytes) {
    return;  // the kernel's parameters
  } else if (Region* region = shared_.find(address)) {
    is_shared = true;
    if (!shared_.inside_variable(address, size)) {
      report_access(FindingKind::kOutOfBounds, region, address, site,
                    "It lies between the __shared__ variables, in none of them.");
    } else {
      check_region(*region, address, size, kind, site);
    }
  } else if (!is_mapped(address)) {
    report_access(FindingKind::kNullPointer, nullptr, address, site,
                  "No memory is there: a null or wild pointer. The launch ends here.");
    kill_launch();
  }
  if ((address & (size - 1)) != 0) {
    report_access(FindingKind::kMisaligned, nullptr, address, site,
                  "An access of " + std::to_string(size) +
                      " bytes needs an address that is a multiple of " + std::to_string(size) +
                      "; on a GPU the launch would fail.");
  }
  thread.trace.push_back(make_record(site, is_shared, address));
}

// Did the access with this stamp happen before everything the current thread does from now on?
bool Core::happens_before(Stamp earlier, const Region& region) const {
  const std::uint64_t epoch = stamp_epoch(earlier);
  if (epoch < launch_epoch_) return true;
  // An earlier block had this shared memory for itself; in global memory nothing orders two blocks.
  if (epoch < block_epoch_) return region.shared;
  if (epoch < barrier_epoch_) return true;
  const Thread& self = *current_thread;
  const int other = stamp_thread(earlier);
  if (other == self.index) return true;
  if (other / 32 != self.warp()) return false;
  return epoch < warp_epoch_[self.warp()] || epoch < self.synced[other % 32];
}

void Core::check_region(Region& region, std::uintptr_t address, std::size_t size, AccessKind kind,
                        std::uint16_t site) {
  const int self = current_thread->index;
  const Stamp now = epoch_ << kEpochShift | Stamp(self) << kSiteBits | site;
  const auto same_thread_and_epoch = [&](Stamp s) { return ((s ^ now) >> kSiteBits) == 0; };
  // An atomic operation races with plain accesses, not with other atomic operations.
  const auto both_atomic = [&](Stamp s) {
    return kind == AccessKind::kAtomic && sites[stamp_site(s)].kind == AccessKind::kAtomic;
  };
  const auto conflicts = [&](Stamp s) {
    return s != 0 && !same_thread_and_epoch(s) && !happens_before(s, region) && !both_atomic(s);
  };
  std::size_t count = 0;
  Cell* cell = region.cells(address, size, count);
  for (Cell* end = cell + count; cell != end; ++cell) {
    if (conflicts(cell->write)) report_race(region, address, cell->write, site);
    if (kind != AccessKind::kWrite) {
      const bool written = region.shared ? stamp_epoch(cell->write) >= block_epoch_
                                         : cell->write != 0 || region.initialised;
      if (!written) {
        report_access(FindingKind::kUninitialised, &region, address, site,
                      region.shared ? "No thread of this block has written it."
                                    : "Neither the host nor a kernel has written it.");
        cell->write = now;  // one report for each element
      }
    }
    if (kind == AccessKind::kRead) {
      if (same_thread_and_epoch(cell->read)) continue;
      if (cell->read == 0 || happens_before(cell->read, region)) {
        cell->read = now;
      } else if (stamp_epoch(cell->read) < block_epoch_ ||
                 stamp_thread(cell->read) / 32 != self / 32 || cell->other_read == 0 ||
                 happens_before(cell->other_read, region)) {
        cell->other_read = now;
      }
      continue;
    }
    if (conflicts(cell->read)) report_race(region, address, cell->read, site);
    if (conflicts(cell->other_read)) report_race(region, address, cell->other_read, site);
    cell->write = now;
  }
}

// Memory the machine did not hand out (a host array given to a kernel) is allowed if it exists.
bool Core::is_mapped(std::uintptr_t address) {
  const std::uintptr_t page = address / 4096;
  if (mapped_pages_.count(page) != 0) return true;
  unsigned char resident;
  if (mincore(reinterpret_cast<void*>(page * 4096), 1, &resident) != 0) return false;
  mapped_pages_.insert(page);
  return true;
}

}  // namespace cuflash::simt
