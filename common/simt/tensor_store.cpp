// cp.async.bulk.tensor from shared to global memory: a store reads its source at the wait for that,
// and writes at the wait for its end, or when the block has ended. A reduction is a store that adds
// (bulk_reduce.cpp).
//
// When it begins, its elements in global memory become NaNs, and whoever accesses them before its
// end is reported; what a reduction adds to stays, for others that add. So is a write to its source
// before the wait for the reading, or one that this wait is not ordered before.
#include "simt/tensor_store.h"

#include <device/ptx/tensor_store.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "simt/access_check.h"

namespace cuflash::simt {

void Core::issue_tensor_store(Thread& self, const TensorMapArguments& map, const int (&first)[4],
                              std::uintptr_t from, std::uintptr_t return_address) {
  constexpr std::size_t kElement = TensorMapArguments::kElementBytes;
  const std::uint16_t site =
      sites.id(return_address, AccessKind::kRead, BoxChunk::kBytes, kElement);
  check_box(self, from, static_cast<std::size_t>(map.box_bytes()), first[0], site, "reads");
  const int lowest = *std::min_element(std::begin(first), std::end(first));
  if (lowest < 0) {
    report_access(Report::kOutOfBounds, self, &shared_.region(), from, site,
                  "No coordinate of a store is negative; this is " + std::to_string(lowest) +
                      ". To a GPU it is an illegal instruction. The launch ends here.");
    kill_launch();
  }
  TensorStore store;
  for (const BoxChunk& chunk : box_chunks(from, map, first)) {
    if (chunk.begin < chunk.end) store.chunks.push_back(chunk);
  }
  store.write_site = sites.id(return_address, AccessKind::kWrite, BoxChunk::kBytes, kElement);
  begin_tensor_store(self, std::move(store), site);
}

void Core::begin_tensor_store(Thread& self, TensorStore&& begins, std::uint16_t site) {
  tensor_stores_.use(num_threads_, shared_.region().bytes);
  TensorStore& store = tensor_stores_.list.emplace_back(std::move(begins));
  store.group = tensor_stores_.groups[self.index];
  sites.mark_as_tma(store.write_site);
  next_moment();
  store.begun = stamp_of(self, site);
  if (counts_accesses()) {
    check_store_source(self, store);
    take_store_target(self, store);
  }
  for (const BoxChunk& chunk : store.chunks) {
    store_read(chunk.shared) = store.begun;
    if (store.adds) continue;
    std::memset(reinterpret_cast<void*>(chunk.global + chunk.begin), 0xff, chunk.end - chunk.begin);
  }
}

// ---- When a store begins -----------------------------------------------------------------------

// What it reads must have been written, in order and with a proxy fence.
void Core::check_store_source(const Thread& self, const TensorStore& store) {
  Region& region = shared_.region();
  const auto site = static_cast<std::uint16_t>(stamp_site(store.begun));
  const auto check_writer = [&](Stamp writer, std::uintptr_t address) {
    if (!happens_before(writer, self, store.begun, true)) {
      report_race(self, region, address, writer, site);
    } else if (!self.knowledge.has_fenced(writer)) {
      report_accesses(Report::kWriteWithoutProxyFence, &region, address,
                      {named_access(writer), access_of(self, site)},
                      "The store may overtake the write. The thread that writes must call "
                      "fence_proxy_async() before the barrier that orders the two.");
    }
  };
  for (const BoxChunk& chunk : store.chunks) {
    if (recorder.on()) {
      recorder.note(*this, self, chunk.shared, BoxChunk::kBytes, AccessKind::kRead, site);
    }
    if (meets_copy(self, region, chunk.shared, site)) continue;
    const TensorCopy* const copied = tensor_copies_.at(chunk.shared);
    std::size_t count = 0;
    Cell* const cells = region.cells(chunk.shared, BoxChunk::kBytes, count);
    for (Cell* cell = cells; cell != cells + count; ++cell) {
      if (copied != nullptr && cell->write == 0) {
        if (!has_ended(self, *copied)) report_not_full(self, *copied, chunk.shared, site);
      } else if (cell->write < block_start_) {
        report_access(Report::kUninitialised, self, &region, chunk.shared, site,
                      "No thread of this block has written it.");
        cell->write = block_start_;  // one report
      } else if (cell->write != block_start_) {
        check_writer(cell->write, chunk.shared);
      }
    }
  }
}

// Checks the writes to global memory, and counts them. The place belongs to the store from now on.
// Chunks that lie in no memory are left out.
void Core::take_store_target(Thread& self, TensorStore& store) {
  std::uint64_t bytes = 0;
  std::vector<std::uintptr_t> sectors;
  const Stamp now = stamp_of(self, store.write_site);
  const auto check_order = [&](Stamp earlier, const Region& region, std::uintptr_t address) {
    const bool both_atomic = store.adds && sites[stamp_site(earlier)].kind == AccessKind::kAtomic;
    if (is_over(earlier, self, now, false)) {
      check_proxy_fence(self, region, address, earlier, store.write_site);
    } else if (!both_atomic) {
      report_race(self, region, address, earlier, store.write_site);
    }
  };
  const auto write = [&](std::uintptr_t to, std::size_t size) {
    bytes += size;
    sectors.push_back(to / 32);
    Region* const region = region_of(to);
    if (region == nullptr || region->shared || region->freed || !region->has(to, size)) {
      bool shared = false;
      check_operand(self, to, size, store.write_site, false,
                    store.adds ? "cp.reduce.async.bulk adds to" : "cp.async.bulk.tensor writes");
      check(self, to, size, store.write_site, shared);
      return region == nullptr;
    }
    if (!meets_store(self, *region, to, store.write_site)) {
      std::size_t count = 0;
      Cell* const cells = region->cells(to, size, count);
      for (Cell* cell = cells; cell != cells + count; ++cell) {
        for (const Stamp earlier : {cell->write, cell->read, cell->other_read}) {
          check_order(earlier, *region, to);
        }
        if (store.adds && cell->write == 0 && !region->initialised) {
          report_access(Report::kUninitialised, self, region, to, store.write_site,
                        "Neither the host nor a kernel has written it.");
        }
        cell->write = now;
      }
    }
    region->stored_to = true;
    tensor_stores_.to[to / BoxChunk::kBytes] = &store;
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
  requests.count_copy(store.write_site, bytes, touched);
  const auto kind = store.adds ? WarpEvent::Kind::kBoxAdd : WarpEvent::Kind::kBoxStore;
  block_recorder.mark_box(self, kind, store.write_site, store.chunks, bytes, touched);
}

// ---- Until its end -----------------------------------------------------------------------------

Stamp& Core::store_read(std::uintptr_t address) {
  return tensor_stores_
      .reads[address / BoxChunk::kBytes - shared_.region().begin / BoxChunk::kBytes];
}

// The thread, or a copy that it begins, is about to write there. Returns a read by a store that
// nothing orders before it, or 0. A store that still reads is reported.
Stamp Core::unordered_store_read(const Thread& self, std::uintptr_t address, std::uint16_t site) {
  if (!tensor_stores_.in_use()) return 0;
  const Stamp read = store_read(address);
  const bool still_reads =
      std::any_of(tensor_stores_.list.begin(), tensor_stores_.list.end(),
                  [&](const TensorStore& store) { return store.reads && store.begun == read; });
  if (still_reads) {
    report_accesses(Report::kSourceOfStoreOverwritten, &shared_.region(), address,
                    {named_access(read), access_of(self, site)},
                    "The store reads its source until the tensor_store_wait_read() that covers its "
                    "group.");
    return 0;
  }
  return read == 0 || happens_before(read, self, stamp_of(self, site), true) ? 0 : read;
}

// True if the access meets what a store is to write; it is then reported.
bool Core::meets_store(const Thread& self, const Region& region, std::uintptr_t address,
                       std::uint16_t site) {
  if (!region.stored_to) return false;
  const auto found = tensor_stores_.to.find(address / BoxChunk::kBytes);
  if (found == tensor_stores_.to.end()) return false;
  const TensorStore& store = *found->second;
  if (store.adds && sites[site].kind == AccessKind::kAtomic) return false;
  NamedAccess writes = named_access(store.begun);
  writes.site = store.write_site;
  const bool read = sites[site].kind == AccessKind::kRead;
  report_accesses(read ? Report::kReadOfStore : Report::kWriteOverStore, &region, address,
                  {writes, access_of(self, site)},
                  "The store ends at the tensor_store_wait() that covers its group.");
  return true;
}

void Core::commit_tensor_stores(const Thread& self) {
  tensor_stores_.use(num_threads_, shared_.region().bytes);
  ++tensor_stores_.groups[self.index];
}

void Core::wait_for_tensor_stores(const Thread& self, std::size_t pending, bool only_read) {
  next_moment();
  auto& list = tensor_stores_.list;
  for (auto store = list.begin(); store != list.end();) {
    const auto current = store++;
    if (stamp_thread(current->begun) != self.index) continue;
    if (current->group + pending >= tensor_stores_.groups[self.index]) continue;
    end_reading(*current);
    if (!only_read) end_tensor_store(current);
  }
}

void Core::end_reading(TensorStore& store) {
  if (!store.reads) return;
  store.reads = false;
  for (const BoxChunk& chunk : store.chunks) {
    std::memcpy(store.data.emplace_back().data(), reinterpret_cast<const void*>(chunk.shared),
                BoxChunk::kBytes);
    Stamp& read = store_read(chunk.shared);
    if (read == store.begun) read = now_ | (store.begun & (kOneEpoch - 1));
  }
}

// It has read its source.
void Core::end_tensor_store(std::list<TensorStore>::iterator store) {
  const Thread& thread = threads_[stamp_thread(store->begun)];
  const Stamp now = stamp_of(thread, store->write_site);
  const auto write = [&](std::uintptr_t to, std::size_t size) {
    const auto in_flight = tensor_stores_.to.find(to / BoxChunk::kBytes);
    if (in_flight != tensor_stores_.to.end() && in_flight->second == &*store) {
      tensor_stores_.to.erase(in_flight);
    }
    if (recorder.on()) {
      recorder.note(*this, thread, to, size, sites[store->write_site].kind, store->write_site);
    }
    Region* const region = region_of(to);
    if (!counts_accesses() || region == nullptr) return;
    std::size_t count = 0;
    Cell* const cells = region->cells(to, size, count);
    for (Cell* cell = cells; cell != cells + count; ++cell) cell->write = now;
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
  tensor_stores_.list.erase(store);
}

// The thread has exited.
void Core::check_unfinished_tensor_stores(const Thread& self) {
  for (TensorStore& store : tensor_stores_.list) {
    if (!store.reads || stamp_thread(store.begun) != self.index) continue;
    report_accesses(Report::kStoreWithoutWait, &shared_.region(),
                    store.chunks.empty() ? shared_.region().begin : store.chunks[0].shared,
                    {named_access(store.begun)},
                    "Its thread ends and has not waited until the store has read its source.");
    end_reading(store);
  }
}

// All threads of the block have exited.
void Core::end_all_tensor_stores() {
  next_moment();
  while (!tensor_stores_.list.empty()) end_tensor_store(tensor_stores_.list.begin());
}

void issue_tensor_store(const TensorMap& map, const int (&first)[4], const void* shared) {
  core.issue_tensor_store(*running_thread(), map.arguments, first, as_address(shared),
                          as_address(__builtin_return_address(0)));
}

void commit_tensor_stores() {
  Thread& self = *running_thread();
  core.block_recorder.mark(self, WarpEvent::Kind::kCommitStores,
                           as_address(__builtin_return_address(0)));
  core.commit_tensor_stores(self);
}

void wait_for_tensor_stores(int pending, bool only_read) {
  Thread& self = *running_thread();
  core.block_recorder.mark(self, WarpEvent::Kind::kWaitStores,
                           as_address(__builtin_return_address(0)), pending);
  core.wait_for_tensor_stores(self, static_cast<std::size_t>(pending), only_read);
}

}  // namespace cuflash::simt
