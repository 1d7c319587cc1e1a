#include "simt/block_recorder.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

WarpEvent::Kind kind_of(AccessKind kind, bool copy) {
  using Kind = WarpEvent::Kind;
  if (kind == AccessKind::kRead) return copy ? Kind::kCopyRead : Kind::kRead;
  if (kind == AccessKind::kWrite) return copy ? Kind::kCopyWrite : Kind::kWrite;
  return Kind::kAtomic;
}

// Adds a lane, or the next piece of a box, to as few spans as possible.
void add_lane(std::vector<LaneSpan>& spans, int lane, std::int64_t offset) {
  if (!spans.empty() && spans.back().first + spans.back().lanes == lane) {
    LaneSpan& last = spans.back();
    const std::int64_t stride = offset - last.offset - (last.lanes - 1) * last.stride;
    if (last.lanes == 1) last.stride = stride;
    if (stride == last.stride) {
      ++last.lanes;
      return;
    }
  }
  spans.push_back({lane, 1, offset, 0});
}

// Sorts a list by a key, and returns the new place of each element.
template <class T, class Key>
std::vector<int> sorted(std::vector<T>& list, Key key) {
  std::vector<std::size_t> order(list.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(list[a]) < key(list[b]); });
  std::vector<int> place(list.size());
  std::vector<T> result;
  for (const std::size_t n : order) {
    place[n] = static_cast<int>(result.size());
    result.push_back(list[n]);
  }
  list = std::move(result);
  return place;
}

Counts operator-(Counts a, const Counts& b) {
  a.launches -= b.launches;
  a.global_read_bytes -= b.global_read_bytes;
  a.global_write_bytes -= b.global_write_bytes;
  a.global_read_requests -= b.global_read_requests;
  a.global_write_requests -= b.global_write_requests;
  a.global_read_sectors -= b.global_read_sectors;
  a.global_write_sectors -= b.global_write_sectors;
  a.shared_read_bytes -= b.shared_read_bytes;
  a.shared_write_bytes -= b.shared_write_bytes;
  a.shared_requests -= b.shared_requests;
  a.shared_wavefronts -= b.shared_wavefronts;
  a.bank_conflicts -= b.bank_conflicts;
  a.barriers -= b.barriers;
  a.warp_syncs -= b.warp_syncs;
  a.exchanges -= b.exchanges;
  a.barrier_calls -= b.barrier_calls;
  a.products -= b.products;
  a.multiply_adds -= b.multiply_adds;
  a.products_left -= b.products_left;
  return a;
}

}  // namespace

void BlockRecorder::begin_block() {
  const BlockIndex wanted = core.only_block.value_or(BlockIndex{0, 0, 0});
  const uint3 index = core.block_index();
  in_block_ = on_ && index.x == wanted.x && index.y == wanted.y && index.z == wanted.z;
  if (!in_block_) return;
  const dim3 block = core.launch()->block;
  BlockRun run;
  run.kernel = core.kernel_name(core.launch()->kernel);
  run.block = wanted;
  const dim3 grid = core.launch()->grid;
  run.blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  run.threads = static_cast<int>(block.x * block.y * block.z);
  run.shared_bytes = core.launch()->shared.bytes;
  const std::size_t warps = (static_cast<std::size_t>(run.threads) + 31) / 32;
  run.warps.resize(warps);
  runs_.push_back(std::move(run));
  lanes_.assign(warps * 32, {});
  made_.assign(warps, {});
  places_.clear();
  array_places_.clear();
  barrier_places_.clear();
  before_ = core.counts();
}

void BlockRecorder::end_block() {
  if (!in_block_) return;
  in_block_ = false;
  BlockRun& run = runs_.back();
  run.intervals = core.barriers_of_block() + 1;
  run.counts = core.counts() - before_;
  run.arrays = arrays_.take();
  // The order of first arrivals depends on the schedule; the order in a run must not.
  const std::vector<int> places = sorted(run.places, [](const BlockRun::Place& place) {
    return std::tie(place.file, place.line, place.kernel_line);
  });
  const std::vector<int> arrays = sorted(run.arrays, [](const LoggedArray& array) {
    return std::tie(array.shared, array.offset, array.name);
  });
  const std::vector<int> barriers =
      sorted(run.barriers, [](const BlockRun::Barrier& barrier) { return std::tie(barrier.name); });
  for (std::vector<WarpEvent>& warp : run.warps) {
    for (WarpEvent& event : warp) {
      event.place = places[static_cast<std::size_t>(event.place)];
      if (event.array >= 0) event.array = arrays[static_cast<std::size_t>(event.array)];
      if (event.barrier >= 0) event.barrier = barriers[static_cast<std::size_t>(event.barrier)];
    }
  }
}

WarpEvent BlockRecorder::event(WarpEvent::Kind kind, int place) const {
  WarpEvent event;
  event.kind = kind;
  event.place = place;
  event.interval = core.barriers_of_block();
  return event;
}

int BlockRecorder::place_of(const SourcePlace& place) {
  BlockRun& run = runs_.back();
  const int kernel_line = place.order.empty() ? place.line : place.order.front().first;
  const auto [known, added] = places_.emplace(std::tuple(place.file, place.line, kernel_line),
                                              static_cast<int>(run.places.size()));
  if (added) run.places.push_back({place.file, place.line, kernel_line});
  return known->second;
}

ArrayNumbers::Place BlockRecorder::array_at(std::uintptr_t address) {
  const auto [known, added] = array_places_.try_emplace(address);
  if (added) known->second = arrays_.place_of(address);
  return known->second;
}

int BlockRecorder::barrier_at(const RecordedBarrier& barrier) {
  std::vector<BlockRun::Barrier>& barriers = runs_.back().barriers;
  const auto [known, added] =
      barrier_places_.try_emplace(barrier.key, static_cast<int>(barriers.size()));
  if (added) {
    const std::string name = barrier.named ? "barrier " + std::to_string(barrier.key)
                                           : core.mbarriers.name_at(barrier.key);
    barriers.push_back({name, barrier.named});
  }
  return known->second;
}

void BlockRecorder::add_mark(const Thread& self, WarpEvent event) {
  Lane& lane = lanes_[self.index];
  const int number = lane.made[{event.kind, event.place}]++;
  lane.marks.push_back({lane.taken + self.trace.size(), false, {}, std::move(event), number});
}

void BlockRecorder::mark(const Thread& self, WarpEvent::Kind kind, std::uintptr_t return_address,
                         int pending) {
  if (!on()) return;
  WarpEvent mark = event(kind, place_of(source_place(return_address)));
  mark.pending = pending;
  add_mark(self, std::move(mark));
}

void BlockRecorder::mark_at_barrier(const Thread& self, WarpEvent::Kind kind,
                                    std::uintptr_t return_address, const RecordedBarrier& barrier,
                                    int phase) {
  if (!on()) return;
  WarpEvent mark = event(kind, place_of(source_place(return_address)));
  mark.barrier = barrier_at(barrier);
  mark.phase = phase;
  add_mark(self, std::move(mark));
}

void BlockRecorder::end_phase(const RecordedBarrier& barrier) {
  if (on()) ++runs_.back().barriers[static_cast<std::size_t>(barrier_at(barrier))].phases;
}

void BlockRecorder::mark_box(const Thread& self, WarpEvent::Kind kind, std::uint16_t site,
                             const std::vector<BoxChunk>& chunks, std::uint64_t bytes,
                             std::uint64_t sectors, const RecordedBarrier* barrier, int phase) {
  if (!on()) return;
  std::vector<std::uintptr_t> in_global, in_shared;
  for (const BoxChunk& chunk : chunks) {
    if (chunk.end > chunk.begin) in_global.push_back(chunk.global);
    in_shared.push_back(chunk.shared);
  }
  WarpEvent box = event(kind, place_of(core.sites[site].place));
  box.lane_bytes = BoxChunk::kBytes;
  WarpEvent in_global_memory = box;
  in_global_memory.bytes = bytes;
  in_global_memory.sectors = sectors;
  box.shared = true;
  if (barrier != nullptr) {
    box.barrier = barrier_at(*barrier);
    box.phase = phase;
  }
  add_box(self, std::move(in_global_memory), in_global);
  add_box(self, std::move(box), in_shared);
}

void BlockRecorder::add_box(const Thread& self, WarpEvent box,
                            const std::vector<std::uintptr_t>& pieces) {
  if (pieces.empty()) return;
  const ArrayNumbers::Place at = array_at(pieces.front());
  box.array = at.array;
  const std::uintptr_t begin = pieces.front() - static_cast<std::uintptr_t>(at.offset);
  int number = 0;
  for (const std::uintptr_t piece : pieces) {
    add_lane(box.lanes, number++, static_cast<std::int64_t>(piece - begin));
  }
  add_mark(self, std::move(box));
}

void BlockRecorder::mark_tile(const Thread& self, const char* name, int number) {
  if (!on()) return;
  Lane& lane = lanes_[self.index];
  const WarpTile tile = {name == nullptr ? "" : name, number};
  lane.marks.push_back({lane.taken + self.trace.size(), true, tile, {}, 0});
}

// Takes the lane's marks up to its next access.
void BlockRecorder::take_marks(int index) {
  Lane& lane = lanes_[warp_ * 32 + index];
  for (; !lane.marks.empty() && lane.marks.front().after <= lane.taken; lane.marks.pop_front()) {
    Mark& mark = lane.marks.front();
    if (mark.of_tile) {
      lane.tile = std::move(mark.tile);
      continue;
    }
    int& made = made_[warp_][{mark.event.kind, mark.event.place}];
    // A box is copied by one thread.
    if (mark.number < made && mark.event.lanes.empty()) continue;
    ++made;
    mark.event.tile = lane.tile;
    runs_.back().warps[warp_].push_back(std::move(mark.event));
  }
}

void BlockRecorder::request(const CountedRequest& request) {
  const Site& site = core.sites[request.site];
  const int first = __builtin_ctz(request.mask);
  for (int lane = first; lane < 32; ++lane) {
    if ((request.mask >> lane & 1) == 0) continue;
    take_marks(lane);
    ++lanes_[warp_ * 32 + lane].taken;
  }
  WarpEvent made =
      event(kind_of(site.kind, copy_sites_.count(request.site) != 0), place_of(site.place));
  made.tile = lanes_[warp_ * 32 + first].tile;
  const ArrayNumbers::Place at = array_at(request.address[first]);
  made.array = at.array;
  made.shared = request.shared;
  made.lane_bytes = site.size;
  made.bytes = std::uint64_t{site.size} * __builtin_popcount(request.mask);
  made.sectors = request.sectors;
  made.wavefronts = request.wavefronts;
  made.conflicts = request.conflicts;
  const std::uintptr_t begin = request.address[first] - static_cast<std::uintptr_t>(at.offset);
  for (int lane = first; lane < 32; ++lane) {
    if ((request.mask >> lane & 1) == 0) continue;
    add_lane(made.lanes, lane, static_cast<std::int64_t>(request.address[lane] - begin));
  }
  if (made.kind == WarpEvent::Kind::kWrite && at.array >= 0) {
    for (int lane = 0; lane < 32; ++lane) {
      if ((request.mask >> lane & 1) == 0) continue;
      const std::size_t end = made.written.size();
      made.written.resize(end + site.size);
      std::memcpy(&made.written[end], reinterpret_cast<const void*>(request.address[lane]),
                  site.size);
    }
  }
  runs_.back().warps[warp_].push_back(std::move(made));
}

void BlockRecorder::end_flush() {
  for (int lane = 0; lane < 32; ++lane) take_marks(lane);
}

std::vector<BlockRun> BlockRecorder::take() { return std::exchange(runs_, {}); }

void record_block(bool on) {
  const std::lock_guard<std::mutex> lock(core.mutex);
  core.block_recorder.turn(on);
}

std::vector<BlockRun> take_block_runs() {
  const std::lock_guard<std::mutex> lock(core.mutex);
  return core.block_recorder.take();
}

}  // namespace cuflash::simt
