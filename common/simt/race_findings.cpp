// Explains races: the two accesses in program order, and the missing order.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

// A mark without a name is the end of a loop over tiles.
bool same_tile(const TileMark& a, const TileMark& b) {
  if (a.name == nullptr || b.name == nullptr) return false;
  return a.number == b.number && std::strcmp(a.name, b.name) == 0;
}

bool different_tiles_of_one_name(const TileMark* a, const TileMark* b) {
  return a != nullptr && b != nullptr && a->number != b->number &&
         std::strcmp(a->name, b->name) == 0;
}

// True if the thread has moved from tile a to tile b since the last barrier.
bool went(const Thread& thread, const TileMark& a, const TileMark& b, Stamp last_barrier) {
  const auto end = thread.tiles.end();
  auto from = std::find_if(thread.tiles.begin(), end,
                           [&](const TileMark& mark) { return mark.since > last_barrier; });
  // Start with the tile that the thread was in at the barrier.
  if (from != thread.tiles.begin()) --from;
  from = std::find_if(from, end, [&](const TileMark& mark) { return same_tile(mark, a); });
  return std::find_if(from, end, [&](const TileMark& mark) { return same_tile(mark, b); }) != end;
}

// True if the lane has lately recorded an access from site a and, later, one from site b.
bool did(const LaneTrace& trace, int a, int b) {
  const auto is = [](int site) {
    return [site](Record r) { return static_cast<int>(r >> kRecordSiteShift) == site; };
  };
  const Record* const end = trace.begin() + trace.size();
  const Record* const from = std::find_if(trace.begin(), end, is(a));
  return std::find_if(from, end, is(b)) != end;
}

// For two unordered accesses of one block: true if the earlier one comes first in the program.
bool comes_first(const NamedAccess& earlier, const NamedAccess& later) {
  const Thread& one = core.thread(earlier.thread);
  const Thread& other = core.thread(later.thread);
  if (different_tiles_of_one_name(earlier.tile, later.tile)) {
    const TileMark &a = *earlier.tile, &b = *later.tile;
    const auto anyone_went = [&](const TileMark& from, const TileMark& to) {
      return went(one, from, to, core.order.last_barrier()) ||
             went(other, from, to, core.order.last_barrier());
    };
    const bool forward = anyone_went(a, b), backward = anyone_went(b, a);
    return forward != backward ? forward : a.number < b.number;
  }
  // A thread that has made both accesses shows their order.
  const int a = earlier.site, b = later.site;
  const bool forward = did(one.trace, a, b) || did(other.trace, a, b);
  const bool backward = did(one.trace, b, a) || did(other.trace, b, a);
  if (forward != backward) return forward;
  // Most tiles are first written, then read.
  const Site &first = core.sites[a], &second = core.sites[b];
  return first.kind != AccessKind::kRead || second.kind == AccessKind::kRead ||
         first.place.file != second.place.file || first.place.line <= second.place.line;
}

// The distance of two accesses: 0 in one warp, 1 in one block, 2 otherwise. A report shows the pair
// with the greatest distance, because __syncwarp() would order only two lanes of a warp.
int distance(const NamedAccess& a, const NamedAccess& b) {
  return a.block != b.block ? 2 : a.thread / 32 != b.thread / 32 ? 1 : 0;
}

std::string explain_race(const NamedAccess& first, const NamedAccess& second) {
  const int apart = distance(first, second);
  if (apart == 2) return "Nothing orders the blocks of one launch.";
  const SourcePlace &from = core.sites[first.site].place, &to = core.sites[second.site].place;
  const bool same_file = from.file == to.file;
  const auto line = [&](const SourcePlace& place) {
    return same_file ? "line " + std::to_string(place.line) : short_location(place);
  };
  std::string text = "No barrier";
  if (apart == 0) text += " and no __syncwarp()";
  text += " orders ";
  if (from.file.empty() || to.file.empty()) return text + "these two accesses.";
  if (from.chain == to.chain && !different_tiles_of_one_name(first.tile, second.tile)) {
    return "Nothing orders the threads that execute " + line(from) + ".";
  }
  text += line(from) + " before ";
  if (different_tiles_of_one_name(first.tile, second.tile)) {
    const bool next = std::abs(first.tile->number - second.tile->number) == 1;
    text += next ? "the next tile's " : "a later tile's ";
  }
  text += line(to) + '.';
  const bool by_copy = core.copies.begin_at(first.site) || core.tensor_copies.read_at(first.site);
  if (by_copy) text += " The barrier must follow the wait for the copy.";
  return text;
}

}  // namespace

void Core::mark_tile(Thread& self, const char* name, int number) {
  std::vector<TileMark>& tiles = self.tiles;
  if (!tiles.empty() && tiles.back().since < order.last_barrier()) tiles = {tiles.back()};
  // Earlier accesses of the thread get an earlier stamp than those in this tile.
  tiles.push_back({order.next_moment(), name, number});
  block_recorder.mark_tile(self, name, number);
}

NamedAccess named_access(Stamp stamp) {
  const std::uint64_t block = core.order.block_of(stamp);
  NamedAccess access{stamp_thread(stamp), block, stamp_site(stamp), nullptr};
  if (block != core.linear_block()) return access;
  for (const TileMark& mark : core.thread(access.thread).tiles) {
    if (mark.since <= stamp) access.tile = mark.name == nullptr ? nullptr : &mark;
  }
  return access;
}

void report_race(const Thread& self, const Region& region, std::uintptr_t address,
                 Stamp earlier_stamp, std::uint16_t site) {
  const std::uint64_t earlier_site = stamp_site(earlier_stamp);
  if (!keeps(core.linear_block()) && !keeps(core.order.block_of(earlier_stamp))) return;
  const Report report = region.shared ? Report::kSharedRace : Report::kGlobalRace;
  const Findings::Key key = {core.launch()->kernel, std::min<std::uint64_t>(earlier_site, site),
                             std::max<std::uint64_t>(earlier_site, site),
                             array_begin(&region, address)};
  const NamedAccess earlier = named_access(earlier_stamp);
  const NamedAccess later = access_of(self, site);
  if (!core.findings.count(report, key, distance(earlier, later))) return;
  const bool in_order = earlier.block != later.block || comes_first(earlier, later);
  const NamedAccess &first = in_order ? earlier : later, &second = in_order ? later : earlier;
  describe(finding_at(report, core.sites[site].place, "  " + explain_race(first, second) + '\n',
                      {first, second}),
           &region, address, core.sites[site]);
}

}  // namespace cuflash::simt
