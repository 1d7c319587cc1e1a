// cp.async: a copy takes effect at the wait that covers it.
//
// When it begins, it counts as a read of its source and a write of its destination, which race with
// earlier accesses. Its destination is then poisoned: the bytes are those of NaNs, and the cells
// say that nobody has written them, so that every access takes the slow way and finds the copy. The
// wait reads the source, writes the destination, and stamps the cells with that moment: what other
// threads do after a barrier that follows is ordered.
#include "simt/cp_async.h"

#include <device/ptx/cp_async.h>

#include <algorithm>
#include <cstring>

#include "simt/access_check.h"

namespace cuflash::simt {
namespace {

constexpr std::size_t kBytes = 16;

// Why the copy has not taken effect.
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

void Core::issue_copy(Thread& self, std::uintptr_t to, std::optional<std::uintptr_t> from,
                      std::uintptr_t return_address) {
  const std::uint16_t read_site = sites.id(return_address, AccessKind::kRead, kBytes);
  const std::uint16_t write_site = sites.id(return_address, AccessKind::kWrite, kBytes);
  check_operand(self, to, kBytes, write_site, true, "cp.async writes");
  if (from) check_operand(self, *from, kBytes, read_site, false, "cp.async reads");
  copies_.write_sites.insert(write_site);
  block_recorder.note_copy(read_site, write_site);
  if (from && recorder.on()) {
    recorder.note(*this, self, *from, kBytes, AccessKind::kRead, read_site);
  }
  if (counts_accesses()) {
    if (from) on_access(self.index, *from, kBytes, AccessKind::kRead, return_address);
    on_access(self.index, to, kBytes, AccessKind::kWrite, return_address);
    std::size_t count = 0;
    Cell* const cells = shared_.region().cells(to, kBytes, count);
    std::fill_n(cells, count, Cell{});
  }
  std::memset(reinterpret_cast<void*>(to), 0xff, kBytes);
  const Stamp begun = next_moment() | static_cast<Stamp>(self.index) << kSiteBits | write_site;
  self.copies.copies.push_back({to, from, self.copies.groups, read_site, begun});
  copies_.to[to] = &self.copies.copies.back();
}

void Core::commit_copies(Thread& self) { ++self.copies.groups; }

void Core::wait_for_copies(Thread& self, std::size_t pending) {
  std::list<AsyncCopy>& copies = self.copies.copies;
  for (; !copies.empty() && copies.front().group + pending < self.copies.groups;
       copies.pop_front()) {
    end_copy(self, copies.front());
  }
}

void Core::end_copy(const Thread& self, const AsyncCopy& copy) {
  const auto in_flight = copies_.to.find(copy.to);
  // If another copy to the same place has begun since, that was reported, and its data stay.
  if (in_flight == copies_.to.end() || in_flight->second != &copy) return;
  copies_.to.erase(in_flight);
  unsigned char data[kBytes] = {};
  if (copy.from) std::memcpy(data, reinterpret_cast<const void*>(*copy.from), kBytes);
  std::memcpy(reinterpret_cast<void*>(copy.to), data, kBytes);
  const int write_site = stamp_site(copy.begun);
  if (recorder.on()) {
    recorder.note(*this, self, copy.to, kBytes, AccessKind::kWrite,
                  static_cast<std::uint16_t>(write_site));
  }
  if (!counts_accesses()) return;
  if (copy.from) check_source(self, *copy.from, kBytes, copy.begun, copy.read_site, true);
  const Stamp now = now_ | static_cast<Stamp>(self.index) << kSiteBits | write_site;
  std::size_t count = 0;
  Cell* const cells = shared_.region().cells(copy.to, kBytes, count);
  std::fill_n(cells, count, Cell{now, 0, 0});
}

// The source is read until the wait: a write since the copy began changes what it copies. If
// `noted`, the cells remember the copy as a reader.
void Core::check_source(const Thread& self, std::uintptr_t from, std::size_t size, Stamp begun,
                        std::uint16_t read_site, bool noted) {
  Region* const region = region_of(from);
  if (region == nullptr || !region->has(from, size)) return;
  const Stamp now = stamp_of(self, read_site);
  std::size_t count = 0;
  Cell* cell = region->cells(from, size, count);
  Stamp writer = 0;
  for (Cell* const end = cell + count; cell != end; ++cell) {
    if (cell->write >= moment_of(begun)) {
      writer = cell->write;
    } else if (noted) {
      note_read(self, *cell, now, false);
    }
  }
  if (writer == 0) return;
  if (!happens_before(writer, self, now, false)) {
    report_race(self, *region, from, writer, read_site);
    return;
  }
  NamedAccess reader = named_access(begun);
  reader.site = read_site;
  report_accesses(Report::kSourceOfCopyOverwritten, region, from, {reader, named_access(writer)},
                  "The copy reads its source until the wait that covers it.");
}

// True if the access meets the destination of a copy in flight; it is then reported.
bool Core::meets_copy(const Thread& self, const Region& region, std::uintptr_t address,
                      std::uint16_t site) {
  const auto found = copies_.to.find(address & ~(kBytes - 1));
  if (found == copies_.to.end()) return false;
  const AsyncCopy& copy = *found->second;
  copies_.reported_sites.insert(stamp_site(copy.begun));
  const bool read = sites[site].kind == AccessKind::kRead;
  report_accesses(read ? Report::kReadOfCopy : Report::kWriteOverCopy, &region, address,
                  {named_access(copy.begun), access_of(self, site)},
                  why_in_flight(copy, threads_[stamp_thread(copy.begun)].copies.groups));
  return true;
}

// The thread has exited.
void Core::check_unfinished_copies(const Thread& self) {
  for (const AsyncCopy& copy : self.copies.copies) {
    if (copies_.reported_sites.count(stamp_site(copy.begun)) != 0) continue;
    report_accesses(Report::kCopyWithoutWait, &shared_.region(), copy.to,
                    {named_access(copy.begun)}, "Its thread ends and has not waited for it.");
  }
}

void issue_copy(void* shared, const void* global, bool valid) {
  core.issue_copy(*running_thread(), as_address(shared),
                  valid ? std::optional(as_address(global)) : std::nullopt,
                  as_address(__builtin_return_address(0)));
}

void commit_copies() {
  Thread& self = *running_thread();
  core.block_recorder.mark(self, WarpEvent::Kind::kCommitCopies,
                           as_address(__builtin_return_address(0)));
  core.commit_copies(self);
}

void wait_for_copies(int pending) {
  Thread& self = *running_thread();
  core.block_recorder.mark(self, WarpEvent::Kind::kWaitCopies,
                           as_address(__builtin_return_address(0)), pending);
  core.wait_for_copies(self, static_cast<std::size_t>(pending));
}

}  // namespace cuflash::simt
