// cp.async.bulk.tensor: a copy takes effect at a wait for the phase of its mbarrier.
//
// At its begin, its destination is poisoned: the bytes become NaNs, and the cells become unwritten,
// so that every access takes the slow path and finds the copy. The first wait for the phase writes
// the data. The cells stay unwritten: from then on the copy checks that the phase's end is ordered
// before each read, and records the readers.
#include "simt/tensor_copy.h"

#include <device/ptx/tensor_copy.h>

#include <algorithm>
#include <cstring>

#include "simt/access_check.h"
#include "simt/proxy_fence.h"

namespace cuflash::simt {
namespace {

constexpr std::size_t kChunk = TensorCopy::kChunk;

// Checks that the bytes count for the intended phase.
void check_phase(const Thread& self, const Mbarrier& barrier, std::uint16_t site) {
  const NamedAccess here = access_of(self, site);
  const bool is_fenced =
      self.knowledge.has_fenced(barrier.initialised) ||
      (barrier.init_fenced != 0 && core.order.happens_before(barrier.init_fenced, self, true));
  if (!is_fenced) {
    core.mbarriers.report(
        Report::kMbarrierWithoutFence, barrier, {named_access(barrier.initialised), here},
        "The thread that initialises the mbarrier must call fence_mbarrier_init() before the "
        "barrier after which other threads use it.");
  }
  if (self.knowledge.phases_of(barrier.index) >= barrier.phase) return;
  core.mbarriers.report(
      Report::kMoreBytesThanExpected, barrier, {named_access(barrier.last_arrival), here},
      "Phase " + std::to_string(barrier.phase - 1) +
          " has ended, and nothing orders its end before this copy: all the bytes that it "
          "expects were already copied. The launch ends here.");
  core.kill_launch();
}

}  // namespace

void TensorCopies::issue(Thread& self, std::uintptr_t to, const TensorMapArguments& map,
                         const int (&first)[4], std::uintptr_t barrier_address,
                         std::uintptr_t return_address) {
  constexpr std::size_t kElement = TensorMapArguments::kElementBytes;
  const std::uint16_t site = core.sites.id(return_address, AccessKind::kWrite, kChunk, kElement);
  const auto bytes = static_cast<std::size_t>(map.box_bytes());
  check_box(self, to, bytes, first[0], site, "writes");
  Mbarrier& barrier =
      core.mbarriers.at(self, barrier_address,
                        core.sites.id(return_address, AccessKind::kAtomic, sizeof(std::uint64_t),
                                      sizeof(std::uint64_t)));
  check_phase(self, barrier, site);

  list_.remove_if([](const TensorCopy& old) { return !old.in_flight && old.places == 0; });
  TensorCopy& copy = list_.emplace_back();
  copy.to = to;
  copy.bytes = bytes;
  copy.chunks = box_chunks(to, map, first);
  copy.barrier = &barrier;
  copy.phase = barrier.phase;
  copy.read_site = core.sites.id(return_address, AccessKind::kRead, kChunk, kElement);
  core.sites.mark_as_tma(copy.read_site);
  core.order.next_moment();
  copy.begun = core.order.stamp_of(self, site);
  copy.readers.resize(core.num_threads());
  if (counts_accesses()) {
    read_box(self, copy);
    check_destination(self, copy);
    take_destination(copy);
  }
  std::memset(reinterpret_cast<void*>(to), 0xff, bytes);
  core.mbarriers.add_bytes(self, barrier, bytes, copy.begun);
}

// ---- When a copy begins ------------------------------------------------------------------------

// Checks the reads of global memory, and counts them.
void TensorCopies::read_box(Thread& self, const TensorCopy& copy) {
  std::uint64_t bytes = 0;
  std::vector<std::uintptr_t> sectors;
  const Stamp now = core.order.stamp_of(self, copy.read_site);
  reads_.push_back({now, copy.barrier->index, copy.phase});
  const auto read = [&](std::uintptr_t from, std::size_t size) {
    bytes += size;
    sectors.push_back(from / 32);
    if (core.recorder.on()) {
      core.recorder.note(self, from, size, AccessKind::kRead, copy.read_site);
    }
    Region* const region = core.region_of(from);
    if (region == nullptr || region->shared || region->freed || !region->has(from, size)) {
      bool shared = false;
      core.check_operand(self, from, size, copy.read_site, false, "cp.async.bulk.tensor reads");
      core.check(self, from, size, copy.read_site, shared);
      return;
    }
    if (!core.tensor_stores.on_access(self, *region, from, copy.read_site)) return;
    region->copied_from = true;
    for (Cell& cell : region->cells(from, size)) {
      core.note_read(self, cell, now, false);
      Stamp& written = cell.write;
      if (written == 0 && !region->initialised) {
        report_access(Report::kUninitialised, self, region, from, copy.read_site,
                      "Neither the host nor a kernel has written it.");
        written = kHostStamp;  // one report
      } else if (written != 0 && !core.order.happens_before(written, self, false)) {
        report_race(self, *region, from, written, copy.read_site);
      } else {
        check_proxy_fence(self, *region, from, written, copy.read_site);
      }
    }
  };
  for (const BoxChunk& chunk : copy.chunks) {
    for_each_piece(chunk.global + chunk.begin, chunk.global + chunk.end, read);
  }
  std::sort(sectors.begin(), sectors.end());
  const auto last = std::unique(sectors.begin(), sectors.end());
  const auto touched = static_cast<std::uint64_t>(last - sectors.begin());
  core.requests.count_copy(copy.read_site, bytes, touched);
  const RecordedBarrier barrier = {copy.barrier->address, false};
  core.block_recorder.mark_box(self, WarpEvent::Kind::kBoxCopy, copy.read_site, copy.chunks, bytes,
                               touched, &barrier, copy.phase);
}

// Checks that all accesses to the replaced data are ordered before the copy. One report of each
// kind.
void TensorCopies::check_destination(const Thread& self, const TensorCopy& copy) {
  Region& region = core.shared().region();
  const auto site = static_cast<std::uint16_t>(stamp_site(copy.begun));
  // An uninitialised value that was reported counts as written at the block's start.
  const auto is_ordered = [&](Stamp access) {
    return access <= core.order.block_start() || core.order.happens_before(access, self, true);
  };
  bool told_reader = false, told_writer = false, told_read_fence = false, told_write_fence = false;
  const auto check_reader = [&](Stamp reader, std::uintptr_t address) {
    if (told_reader || is_ordered(reader)) return;
    told_reader = true;
    report_accesses(Report::kBoxCopyOverReads, &region, address,
                    {named_access(reader), access_of(self, site)},
                    "No barrier orders the read before the copy.");
  };
  const auto check_fence = [&](bool& told, Stamp access, std::uintptr_t address, Report report,
                               const std::string& verb) {  // "read"
    if (told || access <= core.order.block_start() || !is_ordered(access) ||
        self.knowledge.has_fenced(access)) {
      return;
    }
    told = true;
    report_accesses(report, &region, address, {named_access(access), access_of(self, site)},
                    "The copy may overtake the " + verb + ". The thread that " + verb +
                        "s must call fence_proxy_async() before the barrier that orders the two, "
                        "or the copying thread after it.");
  };
  const auto check_reading_thread = [&](Stamp reader, std::uintptr_t address) {
    check_reader(reader, address);
    check_fence(told_read_fence, reader, address, Report::kReadWithoutProxyFence, "read");
  };
  const auto check_writer = [&](Stamp writer, std::uintptr_t address) {
    if (!told_writer && !is_ordered(writer)) {
      told_writer = true;
      report_race(self, region, address, writer, site);
    }
    check_fence(told_write_fence, writer, address, Report::kWriteWithoutProxyFence, "write");
  };
  const TensorCopy* last = nullptr;
  for (std::uintptr_t at = copy.to; at < copy.to + copy.bytes; at += kChunk) {
    const TensorCopy* const old = last_to(at);
    if (old != nullptr && old != last) {
      last = old;
      if (!has_ended(self, *old)) {
        report_accesses(Report::kWriteOverBoxCopy, &region, at,
                        {named_access(old->begun), access_of(self, site)},
                        "The new copy's thread has not waited for phase " +
                            std::to_string(old->phase) + " of " +
                            core.mbarriers.name_of(*old->barrier) + '.');
      }
      const bool whole = old->lies_within(copy.to, copy.bytes);
      for (const TensorCopy::Reader& reader : old->readers) {
        const bool here = reader.address - copy.to < copy.bytes;
        if (whole || here) check_reading_thread(reader.when, reader.address);
      }
    }
    for (const Stamp read : {core.warpgroups.unordered_read(self, at, site),
                             core.tensor_stores.unordered_read(self, at, site)}) {
      if (read != 0) check_reader(read, at);
    }
    for (const Cell& cell : region.cells(at, kChunk)) {
      check_writer(cell.write, at);
      check_reading_thread(cell.read, at);
      check_reading_thread(cell.other_read, at);
    }
  }
}

// From now on the copy is the last one to its destination.
void TensorCopies::take_destination(TensorCopy& copy) {
  Region& region = core.shared().region();
  first_ = region.begin / kChunk;
  at_.resize(region.bytes / kChunk + 2);
  for (std::uintptr_t at = copy.to; at < copy.to + copy.bytes; at += kChunk) {
    TensorCopy* const old = last_to(at);
    if (old != nullptr) --old->places;
    at_[at / kChunk - first_] = &copy;
    for (Cell& cell : region.cells(at, kChunk)) cell = {};
  }
  copy.places = copy.bytes / kChunk;
}

// ---- Accesses to its destination ---------------------------------------------------------------

bool TensorCopies::has_ended(const Thread& self, const TensorCopy& copy) const {
  return !copy.in_flight && self.knowledge.phases_of(copy.barrier->index) > copy.phase;
}

void TensorCopies::report_not_full(const Thread& self, const TensorCopy& copy,
                                   std::uintptr_t address, std::uint16_t site) {
  const bool read = core.sites[site].kind == AccessKind::kRead;
  reported_sites_.insert(stamp_site(copy.begun));
  report_accesses(read ? Report::kReadOfBoxCopy : Report::kWriteOverBoxCopy,
                  &core.shared().region(), address,
                  {named_access(copy.begun), access_of(self, site)},
                  "The copy ends with phase " + std::to_string(copy.phase) + " of " +
                      core.mbarriers.name_of(*copy.barrier) +
                      ". This thread has not waited for that phase, and no barrier follows another "
                      "thread's wait for it.");
}

bool TensorCopies::on_access(const Thread& self, TensorCopy& copy, std::uintptr_t address,
                             std::uint16_t site) {
  if (!has_ended(self, copy)) {
    report_not_full(self, copy, address, site);
    return false;
  }
  if (core.sites[site].kind == AccessKind::kRead) {
    copy.readers[self.index] = {core.order.stamp_of(self, site), address};
  }
  return true;
}

// ---- When a copy ends --------------------------------------------------------------------------

void TensorCopies::on_wait(const Thread& self, const Mbarrier& barrier, int phase) {
  for (TensorCopy& copy : list_) {
    if (copy.in_flight && copy.barrier == &barrier && copy.phase <= phase) {
      end(self, copy);
    }
  }
}

bool TensorCopies::is_over(Stamp earlier, const Thread& self, bool shared) const {
  const CopyRead* const by_copy = shared ? nullptr : read(earlier);
  if (by_copy == nullptr) return core.order.happens_before(earlier, self, shared);
  if (self.knowledge.phases_of(by_copy->barrier) > by_copy->phase) return true;
  return std::any_of(list_.begin(), list_.end(), [&](const TensorCopy& copy) {
    return copy.in_flight && moment_of(copy.begun) == moment_of(earlier);
  });
}

void TensorCopies::end(const Thread& self, TensorCopy& copy) {
  const auto site = static_cast<std::uint16_t>(stamp_site(copy.begun));
  for (const BoxChunk& chunk : copy.chunks) {
    // A copy to the same place that began later was reported, and its data stay.
    if (counts_accesses() && last_to(chunk.shared) != &copy) continue;
    unsigned char data[kChunk] = {};
    std::memcpy(data + chunk.begin, reinterpret_cast<const void*>(chunk.global + chunk.begin),
                chunk.end - chunk.begin);
    std::memcpy(reinterpret_cast<void*>(chunk.shared), data, kChunk);
    if (core.recorder.on()) {
      core.recorder.note(core.thread(stamp_thread(copy.begun)), chunk.shared, kChunk,
                         AccessKind::kWrite, site);
    }
    if (!counts_accesses()) continue;
    for_each_piece(chunk.global + chunk.begin, chunk.global + chunk.end,
                   [&](std::uintptr_t from, std::size_t size) {
                     check_copy_source(self, from, size, copy.begun, copy.read_site, false);
                   });
  }
  copy.in_flight = false;
  copy.chunks = {};
}

void TensorCopies::end_block() {
  for (const TensorCopy& copy : list_) {
    if (!copy.in_flight || reported_sites_.count(stamp_site(copy.begun)) != 0) {
      continue;
    }
    report_accesses(
        Report::kBoxCopyWithoutWait, &core.shared().region(), copy.to, {named_access(copy.begun)},
        "The block ends, and no thread has waited for phase " + std::to_string(copy.phase) +
            " of " + core.mbarriers.name_of(*copy.barrier) + '.');
  }
}

void issue_tensor_copy(void* shared, const TensorMap& map, const int (&first)[4], void* barrier) {
  core.tensor_copies.issue(*running_thread(), as_address(shared), map.arguments, first,
                           as_address(barrier), as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
