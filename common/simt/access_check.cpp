// The checks of accesses that access_check.h does not handle.
#include "simt/access_check.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace cuflash::simt {

void Core::on_access_slow(Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
                          std::uintptr_t return_address) {
  const std::uint16_t site = sites.id(return_address, kind, size);
  if (site == Sites::kForeign) return;
  const bool shared = check_and_count(self, address, size, site);
  if (kind == AccessKind::kAtomic && order.fences.in_use()) {
    order.fences.atomic(self.fences, shared, address);
  }
}

bool Core::check_and_count(Thread& self, std::uintptr_t address, std::size_t size,
                           std::uint16_t site) {
  if (self.trace.full()) make_room(self);
  bool shared = false;
  if (check(self, address, size, site, shared)) {
    self.trace.push(make_record(site, shared, address));
  }
  return shared;
}

bool Core::check(const Thread& self, std::uintptr_t address, std::size_t size, std::uint16_t site,
                 bool& shared) {
  const auto report = [&](Report kind, const Region* region, const std::string& what) {
    report_access(kind, self, region, address, site, what);
  };
  // The kernel's parameters are not device memory.
  const auto args = as_address(launch_->args);
  if (address - args < launch_->args_bytes) return false;
  check_alignment(self, address, size, site);
  Region* const region = region_of(address);
  if (global.owns(address)) {
    if (region == nullptr) {
      report(Report::kOutOfBounds, global.nearest(address),
             "It lies in global memory that is not allocated. The launch ends here.");
      kill_launch();
    } else if (region->freed) {
      report(Report::kUseAfterFree, region,
             "It lies in an allocation that was freed before the launch. The launch ends here.");
      kill_launch();
    } else if (!region->has(address, size)) {
      const Region& nearest = *global.nearest(address);
      const bool before = address < nearest.begin;
      const std::size_t distance =
          before ? nearest.begin - address : address + size - nearest.begin - nearest.bytes;
      report(Report::kOutOfBounds, &nearest,
             "It reaches " + std::to_string(distance) + " bytes " +
                 (before ? "before the start" : "past the end") + " of an allocation of " +
                 std::to_string(nearest.bytes) + " bytes.");
    } else {
      check_cells(self, *region, address, size, site);
    }
  } else if (region != nullptr) {
    if (shared_.inside_variable(address, size)) {
      check_cells(self, *region, address, size, site);
    } else {
      report(Report::kOutOfBounds, region, shared_.explain_outside(address, size));
      // A write outside the variables would hit the host's own thread-local data.
      if (sites[site].kind != AccessKind::kRead && !shared_.is_padding(address, size)) {
        kill_launch();
      }
    }
  } else if (!is_mapped(address)) {
    report(
        Report::kNoMemory, is_null(address) ? nullptr : global.nearest(address),
        "There is no memory at this address: the pointer is null or wild. The launch ends here.");
    kill_launch();
  }
  shared = region != nullptr && region->shared;
  return true;
}

// The CPU may also reject a misaligned access.
void Core::check_alignment(const Thread& self, std::uintptr_t address, std::size_t size,
                           std::uint16_t site) {
  if ((address & (size - 1)) == 0) return;
  report_access(Report::kMisaligned, self, region_of(address), address, site,
                "An access of " + std::to_string(size) +
                    " bytes needs an address that is a multiple of " + std::to_string(size) +
                    ". The launch ends here, as it would on a GPU.");
  kill_launch();
}

void Core::check_operand(const Thread& self, std::uintptr_t address, std::size_t size,
                         std::uint16_t site, bool shared, const std::string& instruction) {
  check_alignment(self, address, size, site);
  const bool is_shared = shared_.region().has(address, size);
  const bool is_local = StackPool::index_of(address) < StackPool::kMaxStacks;
  if (shared ? is_shared : !is_shared && !is_local) return;
  report_access(Report::kOutOfBounds, self, region_of(address), address, site,
                instruction + (shared ? " shared memory; this is " : " global memory; this is ") +
                    (is_shared          ? "shared memory"
                     : is_local         ? "a local variable"
                     : is_null(address) ? "a null pointer"
                                        : "global memory") +
                    ". The launch ends here.");
  kill_launch();
}

void Core::check_cells(const Thread& self, Region& region, std::uintptr_t address, std::size_t size,
                       std::uint16_t site) {
  const AccessKind kind = sites[site].kind;
  const bool shared = region.shared;
  if (shared && !copies.on_access(self, region, address, site)) return;
  if (!tensor_stores.on_access(self, region, address, site)) return;
  const Stamp now = order.stamp_of(self, site);
  // An atomic operation races with plain accesses, not with other atomic operations.
  const auto both_atomic = [&](Stamp s) {
    return kind == AccessKind::kAtomic && sites[stamp_site(s)].kind == AccessKind::kAtomic;
  };
  Stamp opponent = 0;
  const auto look_for_race = [&](Stamp s) {
    if (s != 0 && !tensor_copies.is_over(s, self, shared) && !both_atomic(s)) opponent = s;
  };
  if (shared && kind != AccessKind::kRead) {
    look_for_race(warpgroups.unordered_read(self, address, site));
    look_for_race(tensor_stores.unordered_read(self, address, site));
  }
  bool uninitialised = false;
  TensorCopy* copied = shared ? tensor_copies.last_to(address) : nullptr;
  CellRange cells = {};
  try {
    cells = region.cells(address, size);
  } catch (const std::bad_alloc&) {
    exception_ = std::current_exception();
  }
  if (cells.first == nullptr) kill_launch();
  for (Cell& cell : cells) {
    // True for copied data that no thread has overwritten yet.
    const bool is_copied = copied != nullptr && cell.write == 0;
    if (is_copied && !tensor_copies.on_access(self, *copied, address, site)) return;
    look_for_race(cell.write);
    if (kind != AccessKind::kWrite && !is_copied) {
      const bool written =
          shared ? cell.write >= order.block_start() : cell.write != 0 || region.initialised;
      if (!written) {
        uninitialised = true;
        // Only one report per element: from now on it counts as written before the block began.
        cell.write = shared ? order.block_start() : kHostStamp;
      }
    }
    if (kind == AccessKind::kRead) {
      note_read(self, cell, now, shared);
      continue;
    }
    look_for_race(cell.read);
    look_for_race(cell.other_read);
    cell.write = now;
  }
  if (opponent != 0) report_race(self, region, address, opponent, site);
  if (uninitialised) {
    report_access(Report::kUninitialised, self, &region, address, site,
                  shared ? "No thread of this block has written it."
                         : "Neither the host nor a kernel has written it.");
  }
}

// A cell holds two readers, so that the next writer finds one other than itself. They are of
// different warps if possible: after an event of one warp, the other reader is still found.
void Core::note_read(const Thread& self, Cell& cell, Stamp now, bool shared) {
  if (order.happens_before(cell.read, self, shared)) {
    cell.read = now;
  } else if (!readers_suffice(self, cell, now) &&
             (order.happens_before(cell.other_read, self, shared) ||
              (same_warp(cell.read, cell.other_read) && !same_warp(cell.read, now)))) {
    cell.other_read = now;
  }
}

Region* Core::region_of(std::uintptr_t address) {
  if (global.owns(address)) return global.find(address);
  return shared_.region().has(address, 1) ? &shared_.region() : nullptr;
}

// Memory that the simulator did not allocate, such as a host array passed to a kernel, is allowed
// if it exists.
bool Core::is_mapped(std::uintptr_t address) {
  const std::uintptr_t page = address / 4096;
  if (mapped_pages_.count(page) != 0) return true;
  unsigned char resident;
  if (mincore(reinterpret_cast<void*>(page * 4096), 1, &resident) != 0) return false;
  mapped_pages_.insert(page);
  return true;
}

}  // namespace cuflash::simt
