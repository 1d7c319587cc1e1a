#include "timeline/recording.h"

#include <algorithm>
#include <stdexcept>

namespace cuflash::bench {
namespace {

using timeline::Event;
using timeline::Kind;

// The `bits` of a tag above its lowest `shift`.
unsigned field(unsigned tag, int shift, int bits) { return tag >> shift & ((1u << bits) - 1); }

Kind kind_of(const Event& e) {
  return static_cast<Kind>(field(e.tag, timeline::kLineBits, timeline::kKindBits));
}
int warp_of(const Event& e) {
  constexpr int kShift = timeline::kLineBits + timeline::kKindBits;
  return static_cast<int>(field(e.tag, kShift, timeline::kWarpBits));
}
// The block's number, as far as it fits into a tag.
unsigned short_number(const Event& e) {
  constexpr int kShift = timeline::kLineBits + timeline::kKindBits + timeline::kWarpBits;
  return field(e.tag, kShift, timeline::kBlockBits);
}
unsigned short_number(const RecordedBlock& b) { return b.number % (1u << timeline::kBlockBits); }

Span span_of(const Event& e, std::int64_t end) {
  const int line = static_cast<int>(field(e.tag, 0, timeline::kLineBits));
  return {kind_of(e), line, end - static_cast<std::int64_t>(e.end - e.begin), end, e.data};
}

// The events in the order of their ends, with the time of each. The low half of a clock may wrap.
std::vector<std::pair<std::int64_t, Event>> in_order(const std::vector<Event>& events) {
  std::vector<std::pair<std::int64_t, Event>> ordered;
  for (const Event& e : events) {
    ordered.emplace_back(static_cast<std::int32_t>(e.end - events[0].end), e);
  }
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::int64_t first = ordered.empty() ? 0 : ordered.front().first;
  for (auto& [time, e] : ordered) time -= first;
  if (!ordered.empty() && ordered.back().first >= timeline::kRingCycles) {
    throw std::runtime_error("The kernel runs too long for the log of a timeline.");
  }
  return ordered;
}

// The part of a block for the middle one of its tiles of queries; the whole block if it has one.
RecordedBlock tile_in_the_middle(const RecordedBlock& block) {
  std::vector<std::int64_t> ends;  // for the first warp that marks them
  for (const auto& [warp, spans] : block.warps) {
    for (const Span& span : spans) {
      if (span.kind == Kind::kLastTile) ends.push_back(span.end);
    }
    if (!ends.empty()) break;
  }
  if (ends.size() < 2) return block;
  const std::size_t middle = ends.size() / 2;
  RecordedBlock chosen = block;
  chosen.begin = ends[middle - 1];
  chosen.end = ends[middle];
  for (auto& [warp, spans] : chosen.warps) {
    spans.erase(std::remove_if(spans.begin(), spans.end(),
                               [&](const Span& span) {
                                 return span.begin < chosen.begin || span.end > chosen.end;
                               }),
                spans.end());
  }
  return chosen;
}

}  // namespace

std::vector<RecordedBlock> blocks_of(const std::vector<Event>& events) {
  std::vector<RecordedBlock> blocks;
  for (const auto& [time, e] : in_order(events)) {
    if (kind_of(e) == Kind::kBlock) {
      blocks.push_back({e.data, time, time, e.begin, {}});
      continue;
    }
    const auto block = std::find_if(blocks.rbegin(), blocks.rend(), [&e = e](const auto& b) {
      return short_number(b) == short_number(e);
    });
    if (block == blocks.rend()) throw std::runtime_error("An event belongs to no block.");
    block->end = time;
    block->warps[warp_of(e)].push_back(span_of(e, time));
  }
  return blocks;
}

double clock_ghz(const std::vector<RecordedBlock>& blocks) {
  const Span* last = nullptr;
  for (const RecordedBlock& block : blocks) {
    for (const auto& [warp, spans] : block.warps) {
      for (const Span& span : spans) {
        if (span.kind != Kind::kLastTile) continue;
        if (last == nullptr || last->end < span.end) last = &span;
      }
    }
  }
  if (last == nullptr) throw std::runtime_error("No tile has ended on the recorded SM.");
  const RecordedBlock& first = blocks.front();
  return static_cast<double>(last->end - first.begin) / (last->data - first.nanoseconds);
}

std::vector<RecordedBlock> in_the_middle(const std::vector<RecordedBlock>& blocks) {
  if (blocks.empty()) return {};
  if (blocks.size() == 1) return {tile_in_the_middle(blocks.front())};
  const RecordedBlock& middle = blocks[blocks.size() / 2];
  const std::int64_t half_way = (middle.begin + middle.end) / 2;
  std::vector<RecordedBlock> chosen;
  for (const RecordedBlock& b : blocks) {
    if (b.begin <= half_way && half_way < b.end) chosen.push_back(b);
  }
  return chosen;
}

}  // namespace cuflash::bench
