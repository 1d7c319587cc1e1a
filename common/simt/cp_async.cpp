// cp.async: a copy takes effect at the wait that covers it.
//
// At its begin, a copy counts as a read of its source and a write of its destination, which may
// race with earlier accesses. Its destination is then poisoned: the bytes become NaNs, and the
// cells become unwritten, so that every access takes the slow path and finds the copy. The wait
// reads the source, writes the destination, and stamps the cells with its moment: accesses of other
// threads after a later barrier are ordered.
#include "simt/cp_async.h"

#include <device/ptx/cp_async.h>

#include <algorithm>
#include <cstring>

#include "simt/access_check.h"

namespace cuflash::simt {
namespace {

constexpr std::size_t kBytes = 16;

// Explains why the copy has not taken effect.
std::string why_in_flight(const AsyncCopy& copy, std::size_t groups) {
  if (copy.group == groups) {
    return "The copy is in flight: its thread has not committed its group, and no wait covers it.";
  }
  const std::string later = std::to_string(groups - copy.group - 1);
  return "The copy is in flight. Its thread committed " + later +
         (later == "1" ? " group" : " groups") + " after it: cp_async_wait<" + later +
         ">() just before this would end it.";
}

}  // namespace

void AsyncCopies::begin_block(int num_threads) {
  of_threads_ = std::vector<OfThread>(num_threads);
  to_.clear();
}

void AsyncCopies::issue(const Thread& self, std::uintptr_t to, std::optional<std::uintptr_t> from,
                        std::uintptr_t return_address) {
  const std::uint16_t read_site = core.sites.id(return_address, AccessKind::kRead, kBytes);
  const std::uint16_t write_site = core.sites.id(return_address, AccessKind::kWrite, kBytes);
  core.check_operand(self, to, kBytes, write_site, true, "cp.async writes");
  if (from) core.check_operand(self, *from, kBytes, read_site, false, "cp.async reads");
  write_sites_.insert(write_site);
  core.block_recorder.note_copy(read_site, write_site);
  if (from && core.recorder.on()) {
    core.recorder.note(self, *from, kBytes, AccessKind::kRead, read_site);
  }
  if (counts_accesses()) {
    if (from) core.on_access(self.index, *from, kBytes, AccessKind::kRead, return_address);
    core.on_access(self.index, to, kBytes, AccessKind::kWrite, return_address);
    for (Cell& cell : core.shared().region().cells(to, kBytes)) cell = Cell{};
  }
  std::memset(reinterpret_cast<void*>(to), 0xff, kBytes);
  core.order.next_moment();
  OfThread& mine = of_threads_[self.index];
  mine.copies.push_back({to, from, mine.groups, read_site, core.order.stamp_of(self, write_site)});
  to_[to] = &mine.copies.back();
}

void AsyncCopies::wait(const Thread& self, std::size_t pending) {
  OfThread& mine = of_threads_[self.index];
  for (; !mine.copies.empty() && mine.copies.front().group + pending < mine.groups;
       mine.copies.pop_front()) {
    end(self, mine.copies.front());
  }
}

void AsyncCopies::end(const Thread& self, const AsyncCopy& copy) {
  const auto in_flight = to_.find(copy.to);
  // A copy to the same place that began later was reported, and its data stay.
  if (in_flight == to_.end() || in_flight->second != &copy) return;
  to_.erase(in_flight);
  unsigned char data[kBytes] = {};
  if (copy.from) std::memcpy(data, reinterpret_cast<const void*>(*copy.from), kBytes);
  std::memcpy(reinterpret_cast<void*>(copy.to), data, kBytes);
  const auto write_site = static_cast<std::uint16_t>(stamp_site(copy.begun));
  if (core.recorder.on()) {
    core.recorder.note(self, copy.to, kBytes, AccessKind::kWrite, write_site);
  }
  if (!counts_accesses()) return;
  if (copy.from) check_copy_source(self, *copy.from, kBytes, copy.begun, copy.read_site, true);
  const Stamp now = core.order.stamp_of(self, write_site);
  for (Cell& cell : core.shared().region().cells(copy.to, kBytes)) cell = Cell{now, 0, 0};
}

void check_copy_source(const Thread& self, std::uintptr_t from, std::size_t size, Stamp begun,
                       std::uint16_t read_site, bool noted) {
  Region* const region = core.region_of(from);
  if (region == nullptr || !region->has(from, size)) return;
  const Stamp now = core.order.stamp_of(self, read_site);
  Stamp writer = 0;
  for (Cell& cell : region->cells(from, size)) {
    if (cell.write >= moment_of(begun)) {
      writer = cell.write;
    } else if (noted) {
      core.note_read(self, cell, now, false);
    }
  }
  if (writer == 0) return;
  if (!core.order.happens_before(writer, self, false)) {
    report_race(self, *region, from, writer, read_site);
    return;
  }
  NamedAccess reader = named_access(begun);
  reader.site = read_site;
  report_accesses(Report::kSourceOfCopyOverwritten, region, from, {reader, named_access(writer)},
                  "The copy reads its source until the wait that covers it.");
}

bool AsyncCopies::on_access(const Thread& self, const Region& region, std::uintptr_t address,
                            std::uint16_t site) {
  const auto found = to_.find(address & ~(kBytes - 1));
  if (found == to_.end()) return true;
  const AsyncCopy& copy = *found->second;
  reported_sites_.insert(stamp_site(copy.begun));
  const bool read = core.sites[site].kind == AccessKind::kRead;
  report_accesses(read ? Report::kReadOfCopy : Report::kWriteOverCopy, &region, address,
                  {named_access(copy.begun), access_of(self, site)},
                  why_in_flight(copy, of_threads_[stamp_thread(copy.begun)].groups));
  return false;
}

void AsyncCopies::end_thread(const Thread& self) {
  for (const AsyncCopy& copy : of_threads_[self.index].copies) {
    if (reported_sites_.count(stamp_site(copy.begun)) != 0) continue;
    report_accesses(Report::kCopyWithoutWait, &core.shared().region(), copy.to,
                    {named_access(copy.begun)}, "Its thread exits without waiting for it.");
  }
}

void issue_copy(void* shared, const void* global, bool valid) {
  core.copies.issue(*running_thread(), as_address(shared),
                    valid ? std::optional(as_address(global)) : std::nullopt,
                    as_address(__builtin_return_address(0)));
}

void commit_copies() {
  Thread& self = *running_thread();
  core.block_recorder.mark(self, WarpEvent::Kind::kCommitCopies,
                           as_address(__builtin_return_address(0)));
  core.copies.commit(self);
}

void wait_for_copies(int pending) {
  Thread& self = *running_thread();
  core.block_recorder.mark(self, WarpEvent::Kind::kWaitCopies,
                           as_address(__builtin_return_address(0)), pending);
  core.copies.wait(self, static_cast<std::size_t>(pending));
}

}  // namespace cuflash::simt
