// cp.async.bulk.tensor from shared to global memory: a store reads its source at the wait for the
// reading, and writes at the wait for its end or when the block has ended. A reduction is a store
// that adds (bulk_reduce.cpp).
//
// At its begin, its elements in global memory become NaNs, and accesses to them before its end are
// reported; the target of a reduction keeps its values for other additions. A write to its source
// is reported unless the wait for the reading is ordered before it.
#include "simt/tensor_store.h"

#include <device/ptx/tensor_store.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "simt/access_check.h"
#include "simt/proxy_fence.h"

namespace cuflash::simt {

void TensorStores::issue(const Thread& self, const TensorMapArguments& map, const int (&first)[4],
                         std::uintptr_t from, std::uintptr_t return_address) {
  constexpr std::size_t kElement = TensorMapArguments::kElementBytes;
  const std::uint16_t site =
      core.sites.id(return_address, AccessKind::kRead, BoxChunk::kBytes, kElement);
  check_box(self, from, static_cast<std::size_t>(map.box_bytes()), first[0], site, "reads");
  const int lowest = *std::min_element(std::begin(first), std::end(first));
  if (lowest < 0) {
    report_access(Report::kOutOfBounds, self, &core.shared().region(), from, site,
                  "No coordinate of a store may be negative; this one is " +
                      std::to_string(lowest) +
                      ". On a GPU it is an illegal instruction. The launch ends here.");
    core.kill_launch();
  }
  TensorStore store;
  for (const BoxChunk& chunk : box_chunks(from, map, first)) {
    if (chunk.begin < chunk.end) store.chunks.push_back(chunk);
  }
  store.write_site = core.sites.id(return_address, AccessKind::kWrite, BoxChunk::kBytes, kElement);
  begin(self, std::move(store), site);
}

void TensorStores::use() {
  groups_.resize(core.num_threads());
  reads_.resize(core.shared().region().bytes / BoxChunk::kBytes + 2);
}

void TensorStores::begin(const Thread& self, TensorStore&& begins, std::uint16_t site) {
  use();
  TensorStore& store = list_.emplace_back(std::move(begins));
  store.group = groups_[self.index];
  core.sites.mark_as_tma(store.write_site);
  core.order.next_moment();
  store.begun = core.order.stamp_of(self, site);
  if (counts_accesses()) {
    check_source(self, store);
    take_target(self, store);
  }
  for (const BoxChunk& chunk : store.chunks) {
    read_at(chunk.shared) = store.begun;
    if (store.adds) continue;
    std::memset(reinterpret_cast<void*>(chunk.global + chunk.begin), 0xff, chunk.end - chunk.begin);
  }
}

// ---- When a store begins -----------------------------------------------------------------------

// Checks that the source was written, in order and with a proxy fence.
void TensorStores::check_source(const Thread& self, const TensorStore& store) {
  Region& region = core.shared().region();
  const auto site = static_cast<std::uint16_t>(stamp_site(store.begun));
  const auto check_writer = [&](Stamp writer, std::uintptr_t address) {
    if (!core.order.happens_before(writer, self, true)) {
      report_race(self, region, address, writer, site);
    } else if (!self.knowledge.has_fenced(writer)) {
      report_accesses(Report::kWriteWithoutProxyFence, &region, address,
                      {named_access(writer), access_of(self, site)},
                      "The store may overtake the write. The thread that writes must call "
                      "fence_proxy_async() before the barrier that orders the two.");
    }
  };
  for (const BoxChunk& chunk : store.chunks) {
    if (core.recorder.on()) {
      core.recorder.note(self, chunk.shared, BoxChunk::kBytes, AccessKind::kRead, site);
    }
    if (!core.copies.on_access(self, region, chunk.shared, site)) continue;
    const TensorCopy* const copied = core.tensor_copies.last_to(chunk.shared);
    for (Cell& cell : region.cells(chunk.shared, BoxChunk::kBytes)) {
      if (copied != nullptr && cell.write == 0) {
        if (!core.tensor_copies.has_ended(self, *copied)) {
          core.tensor_copies.report_not_full(self, *copied, chunk.shared, site);
        }
      } else if (cell.write < core.order.block_start()) {
        report_access(Report::kUninitialised, self, &region, chunk.shared, site,
                      "No thread of this block has written it.");
        cell.write = core.order.block_start();  // one report
      } else if (cell.write != core.order.block_start()) {
        check_writer(cell.write, chunk.shared);
      }
    }
  }
}

// Checks and counts the writes to global memory, and registers the target. Chunks without memory
// are left out.
void TensorStores::take_target(const Thread& self, TensorStore& store) {
  std::uint64_t bytes = 0;
  std::vector<std::uintptr_t> sectors;
  const Stamp now = core.order.stamp_of(self, store.write_site);
  const auto check_order = [&](Stamp earlier, const Region& region, std::uintptr_t address) {
    const bool both_atomic =
        store.adds && core.sites[stamp_site(earlier)].kind == AccessKind::kAtomic;
    if (core.tensor_copies.is_over(earlier, self, false)) {
      check_proxy_fence(self, region, address, earlier, store.write_site);
    } else if (!both_atomic) {
      report_race(self, region, address, earlier, store.write_site);
    }
  };
  const auto write = [&](std::uintptr_t to, std::size_t size) {
    bytes += size;
    sectors.push_back(to / 32);
    Region* const region = core.region_of(to);
    if (region == nullptr || region->shared || region->freed || !region->has(to, size)) {
      bool shared = false;
      core.check_operand(
          self, to, size, store.write_site, false,
          store.adds ? "cp.reduce.async.bulk adds to" : "cp.async.bulk.tensor writes");
      core.check(self, to, size, store.write_site, shared);
      return region == nullptr;
    }
    if (on_access(self, *region, to, store.write_site)) {
      for (Cell& cell : region->cells(to, size)) {
        for (const Stamp earlier : {cell.write, cell.read, cell.other_read}) {
          check_order(earlier, *region, to);
        }
        if (store.adds && cell.write == 0 && !region->initialised) {
          report_access(Report::kUninitialised, self, region, to, store.write_site,
                        "Neither the host nor a kernel has written it.");
        }
        cell.write = now;
      }
    }
    region->stored_to = true;
    to_[to / BoxChunk::kBytes] = &store;
    return true;
  };
  const auto is_nowhere = [&](const BoxChunk& chunk) {
    bool somewhere = true;
    for_each_piece(chunk.global + chunk.begin, chunk.global + chunk.end,
                   [&](std::uintptr_t to, std::size_t size) { somewhere &= write(to, size); });
    return !somewhere;
  };
  store.chunks.erase(std::remove_if(store.chunks.begin(), store.chunks.end(), is_nowhere),
                     store.chunks.end());
  std::sort(sectors.begin(), sectors.end());
  const auto last = std::unique(sectors.begin(), sectors.end());
  const auto touched = static_cast<std::uint64_t>(last - sectors.begin());
  core.requests.count_copy(store.write_site, bytes, touched);
  const auto kind = store.adds ? WarpEvent::Kind::kBoxAdd : WarpEvent::Kind::kBoxStore;
  core.block_recorder.mark_box(self, kind, store.write_site, store.chunks, bytes, touched);
}

// ---- Until its end -----------------------------------------------------------------------------

Stamp& TensorStores::read_at(std::uintptr_t address) {
  return reads_[address / BoxChunk::kBytes - core.shared().region().begin / BoxChunk::kBytes];
}

Stamp TensorStores::unordered_read(const Thread& self, std::uintptr_t address, std::uint16_t site) {
  if (!in_use()) return 0;
  const Stamp read = read_at(address);
  const bool still_reads = std::any_of(list_.begin(), list_.end(), [&](const TensorStore& store) {
    return store.reads && store.begun == read;
  });
  if (still_reads) {
    report_accesses(Report::kSourceOfStoreOverwritten, &core.shared().region(), address,
                    {named_access(read), access_of(self, site)},
                    "The store reads its source until the tensor_store_wait_read() that covers its "
                    "group.");
    return 0;
  }
  const bool over = read == 0 || core.order.happens_before(read, self, true);
  return over ? 0 : read;
}

bool TensorStores::on_access(const Thread& self, const Region& region, std::uintptr_t address,
                             std::uint16_t site) {
  if (!region.stored_to) return true;
  const auto found = to_.find(address / BoxChunk::kBytes);
  if (found == to_.end()) return true;
  const TensorStore& store = *found->second;
  if (store.adds && core.sites[site].kind == AccessKind::kAtomic) return true;
  NamedAccess writes = named_access(store.begun);
  writes.site = store.write_site;
  const bool read = core.sites[site].kind == AccessKind::kRead;
  report_accesses(read ? Report::kReadOfStore : Report::kWriteOverStore, &region, address,
                  {writes, access_of(self, site)},
                  "The store ends at the tensor_store_wait() that covers its group.");
  return false;
}

void TensorStores::commit(const Thread& self) {
  use();
  ++groups_[self.index];
}

void TensorStores::wait(const Thread& self, std::size_t pending, bool only_read) {
  core.order.next_moment();
  for (auto store = list_.begin(); store != list_.end();) {
    const auto current = store++;
    if (stamp_thread(current->begun) != self.index) continue;
    if (current->group + pending >= groups_[self.index]) continue;
    end_reading(*current);
    if (!only_read) end(current);
  }
}

void TensorStores::end_reading(TensorStore& store) {
  if (!store.reads) return;
  store.reads = false;
  for (const BoxChunk& chunk : store.chunks) {
    std::memcpy(store.data.emplace_back().data(), reinterpret_cast<const void*>(chunk.shared),
                BoxChunk::kBytes);
    Stamp& read = read_at(chunk.shared);
    if (read == store.begun) read = core.order.now() | (store.begun & (kOneEpoch - 1));
  }
}

// Called after the store has read its source.
void TensorStores::end(std::list<TensorStore>::iterator store) {
  const Thread& thread = core.thread(stamp_thread(store->begun));
  const Stamp now = core.order.stamp_of(thread, store->write_site);
  const auto write = [&](std::uintptr_t to, std::size_t size) {
    const auto in_flight = to_.find(to / BoxChunk::kBytes);
    if (in_flight != to_.end() && in_flight->second == &*store) {
      to_.erase(in_flight);
    }
    if (core.recorder.on()) {
      core.recorder.note(thread, to, size, core.sites[store->write_site].kind, store->write_site);
    }
    Region* const region = core.region_of(to);
    if (!counts_accesses() || region == nullptr) return;
    for (Cell& cell : region->cells(to, size)) cell.write = now;
  };
  for (std::size_t i = 0; i < store->chunks.size(); ++i) {
    const BoxChunk& chunk = store->chunks[i];
    if (store->adds) {
      add_floats(chunk.global, store->data[i]);
    } else {
      std::memcpy(reinterpret_cast<void*>(chunk.global + chunk.begin),
                  store->data[i].data() + chunk.begin, chunk.end - chunk.begin);
    }
    for_each_piece(chunk.global + chunk.begin, chunk.global + chunk.end, write);
  }
  list_.erase(store);
}

void TensorStores::end_thread(const Thread& self) {
  for (TensorStore& store : list_) {
    if (!store.reads || stamp_thread(store.begun) != self.index) continue;
    report_accesses(Report::kStoreWithoutWait, &core.shared().region(),
                    store.chunks.empty() ? core.shared().region().begin : store.chunks[0].shared,
                    {named_access(store.begun)},
                    "Its thread exits without waiting until the store has read its source.");
    end_reading(store);
  }
}

const TensorStore* TensorStores::unfinished_of(const Thread& self) const {
  const auto store = std::find_if(list_.begin(), list_.end(), [&](const TensorStore& s) {
    return stamp_thread(s.begun) == self.index;
  });
  return store == list_.end() ? nullptr : &*store;
}

void TensorStores::end_block() {
  core.order.next_moment();
  while (!list_.empty()) end(list_.begin());
}

void issue_tensor_store(const TensorMap& map, const int (&first)[4], const void* shared) {
  core.tensor_stores.issue(*running_thread(), map.arguments, first, as_address(shared),
                           as_address(__builtin_return_address(0)));
}

void commit_tensor_stores() {
  Thread& self = *running_thread();
  core.block_recorder.mark(self, WarpEvent::Kind::kCommitStores,
                           as_address(__builtin_return_address(0)));
  core.tensor_stores.commit(self);
}

void wait_for_tensor_stores(int pending, bool only_read) {
  Thread& self = *running_thread();
  core.block_recorder.mark(self, WarpEvent::Kind::kWaitStores,
                           as_address(__builtin_return_address(0)), pending);
  core.tensor_stores.wait(self, static_cast<std::size_t>(pending), only_read);
}

}  // namespace cuflash::simt
