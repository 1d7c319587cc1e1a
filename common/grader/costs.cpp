#include "costs.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <tuple>
#include <unordered_map>

#include "difference.h"
#include "simt/machine.h"

namespace cuflash::exercises {
namespace {

// How much more the exercise has of something than the stage.
template <std::uint64_t simt::Counts::*kOf>
std::int64_t excess(const Sample& s) {
  return static_cast<std::int64_t>(s.counts.*kOf) - static_cast<std::int64_t>(s.own.*kOf);
}
constexpr auto* read_excess = excess<&simt::Counts::global_read_bytes>;
constexpr auto* write_excess = excess<&simt::Counts::global_write_bytes>;
constexpr auto* conflict_excess = excess<&simt::Counts::bank_conflicts>;
constexpr auto* barrier_excess = excess<&simt::Counts::barriers>;
constexpr auto* warp_sync_excess = excess<&simt::Counts::warp_syncs>;

std::string in_numbers(const Sample& s) {
  const auto part = [&](const char* verb, std::uint64_t has, std::uint64_t target) {
    return s.name + ": " + std::to_string(has) + " bytes " + verb + ", the target is " +
           std::to_string(target) + '\n';
  };
  return read_excess(s) > 0
             ? part("read", s.counts.global_read_bytes, s.own.global_read_bytes)
             : part("written", s.counts.global_write_bytes, s.own.global_write_bytes);
}

// The sample with the most of something.
template <class Excess>
const Sample& worst(const std::vector<Sample>& samples, const Excess& excess) {
  return *std::max_element(samples.begin(), samples.end(),
                           [&](const Sample& a, const Sample& b) { return excess(a) < excess(b); });
}

// True if the line stands between "your lines begin" and "your lines end".
bool is_of_student(const simt::WaitPlace& place) {
  std::ifstream file(place.file);
  std::string text;
  bool inside = false;
  for (int n = 0; n < place.line && std::getline(file, text); ++n) {
    if (text.find("---- your lines ") == std::string::npos) continue;
    inside = text.find("begin") != std::string::npos;
  }
  return inside;
}

// The student's barriers, or __syncwarp() calls, of the sample that has the most of them, without
// which all samples are still right.
std::string needless_waits(const Stage& exercise, const std::vector<Sample>& samples,
                           const Sample& most, bool of_warp) {
  const auto is_right = [&](const Sample& s) {
    harness::TestCase c;
    if (!parse_test_case(s.name, c)) return false;
    const auto check = harness::check_stage(exercise, s.pass, c, harness::Runs::kOneUnlessFound);
    return check.faults.empty() && check.runs.front().right();
  };
  simt::reset_counts();
  is_right(most);
  std::string words;
  for (const simt::WaitPlace& place : simt::wait_places()) {
    if (place.of_warp != of_warp || !is_of_student(place)) continue;
    simt::skip_waits_at(place.location);
    const bool right = is_right(most) && std::all_of(samples.begin(), samples.end(), is_right);
    simt::skip_waits_at("");
    if (!right) continue;
    words += " The simulator finds nothing wrong without the one at " + place.location + ".";
  }
  return words;
}

// What the first block that reads too much of global memory reads that the same block of the stage
// does not, and what it reads more often; by array.
struct ExtraReads {
  std::uint64_t block = 0;
  std::map<int, std::vector<Element>> others, again;
};

ExtraReads extra_reads(const Stage& exercise, const Stage& own, const Sample& s) {
  const AccessHistory mine(exercise, s.pass, s.problem, s.want->inputs),
      theirs(own, s.pass, s.problem, s.want->inputs);
  using Times = std::unordered_map<Element, int, HashOfElement>;
  const auto reads_of = [](const AccessHistory& history) {
    std::map<std::pair<int, std::uint64_t>, Times> reads;  // by launch and block
    for (const Event& event : history.events()) {
      if (event.write || event.shared) continue;
      ++reads[{event.element->launch, event.block}][*event.element];
    }
    return reads;
  };
  auto wanted = reads_of(theirs);
  ExtraReads extra;
  for (const auto& [place, elements] : reads_of(mine)) {
    extra.block = place.second;
    const Times& known = wanted[place];
    for (const auto& [e, times] : elements) {
      const auto found = known.find(e);
      if (found == known.end()) {
        extra.others[e.array].push_back(e);
      } else if (times > found->second) {
        extra.again[e.array].push_back(e);
      }
    }
    if (!extra.others.empty() || !extra.again.empty()) break;
  }
  return extra;
}

// A classical waste of a forward pass with tiles. The id is empty if these reads are none.
Diagnosis waste(const ExtraReads& extra, const Problem& p) {
  const auto all = [](const auto& arrays, const auto& holds) {
    return !arrays.empty() && std::all_of(arrays.begin(), arrays.end(), [&](const auto& array) {
      return std::all_of(array.second.begin(), array.second.end(), holds);
    });
  };
  const auto of_q = [](const Element& e) { return array_name(e.array) == "Q"; };
  const auto of_keys = [](const Element& e) {
    return array_name(e.array) == "K" || array_name(e.array) == "V";
  };
  const auto is_last = [&](const Element& e) {
    return (e.row + 1) % (of_keys(e) ? p.seq_kv : p.seq_q) == 0;
  };
  if (all(extra.others, of_keys)) {
    return {"hidden-tiles-loaded",
            "Tiles are loaded in which no query of the block sees a key: the mask hides all of "
            "them. visible_keys() tells which keys count, and kv_tiles() walks through their "
            "tiles."};
  }
  if (!extra.others.empty()) return {};
  if (all(extra.again, is_last)) {
    return {"tail-read-again",
            "Rows past the end are read: the last row stands in for them again and again. They "
            "need no bytes at all: write zeros."};
  }
  if (!all(extra.again, of_q)) return {};
  return {"q-loaded-again",
          "Q is loaded again for every KV tile. The block's queries stay the same: load their tile "
          "once, before the loop."};
}

}  // namespace

std::vector<Diagnosis> excess_bytes(const std::vector<Sample>& samples, const Stage& exercise,
                                    const Stage& own) {
  const auto bad = [](const Sample& s) { return read_excess(s) > 0 || write_excess(s) > 0; };
  if (std::none_of(samples.begin(), samples.end(), bad)) return {};
  const Sample& example =
      worst(samples, [](const Sample& s) { return std::max(read_excess(s), write_excess(s)); });
  const bool reads = read_excess(example) > 0;
  Diagnosis found = {reads ? "too-many-bytes-read" : "too-many-bytes-written",
                     "The values are right, but more global memory is accessed than the stage "
                     "needs " +
                         where_bad(samples, bad) + '.',
                     in_numbers(example)};
  if (!reads) return {found};
  const Sample& s = *smallest_first(samples, bad).front();
  const ExtraReads extra = extra_reads(exercise, own, s);
  if (!extra.others.empty()) {
    found.details = s.name + ": block " + std::to_string(extra.block) + " reads " +
                    box(extra.others.begin()->second) +
                    ", which the same block of the stage does not\n" + found.details;
  }
  if (s.pass == CUFLASH_FORWARD && s.walk.block_kv > 0) {
    Diagnosis named = waste(extra, s.problem);
    if (!named.id.empty()) found.id = named.id, found.message = named.message;
  }
  return {found};
}

std::string banks_of_rows(const std::string& line, const std::vector<simt::SharedMap>& maps) {
  constexpr std::size_t kBankBytes = 4, kBanks = 32;
  std::string words, of_lanes;
  for (const simt::SharedMap& map : maps) {
    for (const simt::SharedArray& array : map.arrays) {
      if (array.extents.size() < 2 || line.find(array.name + '[') == std::string::npos) continue;
      const std::size_t pitch = array.extents.back() * array.element_bytes;
      std::size_t rows_in[kBanks] = {};
      for (std::size_t r = 0; r < kBanks; ++r) ++rows_in[r * pitch / kBankBytes % kBanks];
      const std::string text =
          " The rows of " + array.name + " are " + std::to_string(pitch) + " bytes apart, " +
          number(pitch / double(kBankBytes)) + " banks: of 32 rows, " +
          std::to_string(*std::max_element(rows_in, rows_in + kBanks)) + " begin in the same bank.";
      words += text;
      if (line.find(array.name + "[lane") != std::string::npos) of_lanes += text;
    }
  }
  return of_lanes.empty() ? words : of_lanes;
}

std::string meeting_lanes(const std::vector<Event>& events) {
  constexpr int kVector = 8, kBytes = 2,
                kLine = 128;  // elements; bytes of an element, of all banks
  std::map<std::tuple<std::uint64_t, int, int>, int> times;  // by block, thread and site
  std::map<std::tuple<std::uint64_t, int, int, int, std::int64_t>, const Event*> taken;
  for (std::size_t n = 0; n + kVector <= events.size(); ++n) {
    const Event &event = events[n], &last = events[n + kVector - 1];
    const bool vector = event.shared && event.pitch > 1 && event.element->column % kVector == 0 &&
                        last.thread == event.thread && last.site == event.site &&
                        last.index() == event.index() + kVector - 1;
    if (!vector) continue;
    const int time = times[{event.block, event.thread, event.site}]++;
    const std::int64_t bytes = event.index() * kBytes, pitch = event.pitch * kBytes;
    const auto [other, is_new] =
        taken.try_emplace({event.block, event.thread / 8, event.site, time, bytes % kLine}, &event);
    const std::int64_t apart = bytes - other->second->index() * kBytes;
    if (is_new || apart == 0) continue;
    return " Lanes " + std::to_string(other->second->thread % 32) + " and " +
           std::to_string(event.thread % 32) + " access " + in_words(*other->second) + " and " +
           in_words(event) + " at once: " + std::to_string(std::abs(apart)) +
           " bytes apart, so in the same banks." +
           (pitch < kLine ? " A row has " + std::to_string(pitch) +
                                " bytes: " + std::to_string(kLine / pitch) +
                                " rows lie side by side in the 128 bytes of all banks."
                          : "");
  }
  return "";
}

std::vector<Diagnosis> excess_conflicts(const std::vector<Sample>& samples, const Stage& exercise) {
  const auto bad = [](const Sample& s) { return conflict_excess(s) > 0; };
  if (std::none_of(samples.begin(), samples.end(), bad)) return {};
  const Sample& example = worst(samples, conflict_excess);
  const Trait* trait = distinguishing_trait(samples, bad);
  const bool half = trait != nullptr && std::string(trait->id) == "f16";
  const std::string headline = "Bank conflicts " + where_bad(samples, bad) + '.';
  std::string numbers = example.name + ": " + std::to_string(example.counts.bank_conflicts) +
                        ", the target is " + std::to_string(example.own.bank_conflicts);
  if (!example.conflicts_line.empty()) {
    numbers += "; most of them at " + example.conflicts_line + '.' + example.conflicts_rows;
  }
  numbers += '\n';
  if (example.conflicts_of_write && !example.own_conflicts_of_write) {
    return {
        {"conflicts-of-write",
         headline +
             " They occur where the tile is written, which needs no padding for whole rows: let "
             "neighbouring threads take neighbouring elements of a row. They then write to "
             "neighbouring banks, and read neighbouring addresses. Where a warp writes parts of "
             "several rows, the distance between the rows must put these parts into different "
             "banks.",
         numbers}};
  }
  if (half) {
    return {
        {"conflicts-in-f16",
         headline +
             " Only f16 has them: the rows of the tile are padded by a number of elements, but a "
             "bank is 4 bytes wide, which is two halves.",
         numbers}};
  }
  return {
      {"bank-conflicts",
       headline +
           " Lanes that walk down a column of a tile meet in one bank if the distance between "
           "their rows, or between every second, fourth or eighth of them, is a multiple of 128 "
           "bytes." +
           (example.conflicts_rows.empty()
                ? meeting_lanes(
                      AccessHistory(exercise, example.pass, example.problem, example.want->inputs)
                          .events())
                : ""),
       numbers,
       "Padding parts them, as wide as the access: 4 bytes if a lane takes 4, 16 bytes if it takes "
       "16. So does another order of the columns, as in 08. A row of which 16 bytes are loaded at "
       "once must begin at a multiple of 16."}};
}

std::vector<Diagnosis> excess_shared_loads(const std::vector<Sample>& samples) {
  // A quarter more may be a matter of taste, as the pages say: what is read again instead of kept.
  const auto limit = [](std::uint64_t own) { return own + own / 4; };
  const auto excess = [&](const Sample& s) {
    return static_cast<std::int64_t>(s.counts.shared_requests) -
           static_cast<std::int64_t>(limit(s.own.shared_requests));
  };
  const Sample& most = worst(samples, excess);
  if (excess(most) <= 0) return {};
  const auto bytes = [](const simt::Counts& of) {
    return of.shared_read_bytes + of.shared_write_bytes;
  };
  const char* const remedy =
      most.counts.multiply_adds > most.own.multiply_adds
          ? "More products are computed, too: leave out what no query of the warp sees."
      : bytes(most.counts) > limit(bytes(most.own))
          ? "Something is read again: keep in registers what is used again."
          : "It is no more bytes, but in smaller pieces: load neighbours by one instruction.";
  return {{"too-many-shared-loads",
           std::string("The values are right, but shared memory is accessed too often. ") + remedy,
           most.name + ": " + std::to_string(most.counts.shared_requests) +
               " requests of warps, most of them at " + most.loads_line + "; the limit is " +
               std::to_string(limit(most.own.shared_requests)) +
               ", a quarter more than the stage's " + std::to_string(most.own.shared_requests) +
               '\n'}};
}

std::vector<Diagnosis> excess_barriers(const std::vector<Sample>& samples, const Stage& exercise) {
  const auto in = [](const Sample& s, std::uint64_t count, const char* what, std::uint64_t target) {
    return s.name + ": " + std::to_string(count) + what + ", the target is " +
           std::to_string(target) + '\n';
  };
  const Sample& most = worst(samples, barrier_excess);
  if (barrier_excess(most) > 0) {
    return {
        {"too-many-barriers",
         "The values are right, but the blocks wait too often. One barrier is needed only between "
         "one warp's write and another's read, or between a read and another warp's next write; "
         "a row that only its own warp reads needs no more than a __syncwarp()." +
             needless_waits(exercise, samples, most, false),
         in(most, most.counts.barriers, " __syncthreads() over all blocks", most.own.barriers)}};
  }
  const Sample& warps = worst(samples, warp_sync_excess);
  if (warp_sync_excess(warps) <= 0) return {};
  return {
      {"too-many-warp-syncs",
       "The values are right, but the warps wait too often. A __syncthreads() orders the lanes "
       "of a warp as well, and what a lane keeps in its registers needs no barrier." +
           needless_waits(exercise, samples, warps, true),
       in(warps, warps.counts.warp_syncs, " __syncwarp() over all warps", warps.own.warp_syncs)}};
}

std::vector<Diagnosis> lost_overlap(const std::vector<Sample>& samples) {
  const auto lost = [](const Sample& s) { return -excess<&simt::Counts::products_left>(s); };
  const Sample& most = worst(samples, lost);
  if (lost(most) <= 0) return {};
  return {{"products-waited-early",
           "The values are right, but fewer products run under other work than in the stage. Issue "
           "a product before the work that does not need it, and let the wait for the one before "
           "it leave it in flight: wgmma_wait<1>() leaves the last group.",
           most.name + ": the waits of all warpgroups leave " +
               std::to_string(most.counts.products_left) + " groups in flight, the target is " +
               std::to_string(most.own.products_left) + '\n'}};
}

std::vector<Diagnosis> missing_waits(const std::vector<Sample>& samples) {
  const auto missing = [](const Sample& s) { return -read_excess(s); };
  const Sample& most = worst(samples, missing);
  if (missing(most) <= 0) return {};
  return {{"count-not-awaited",
           "The values are right here, where one block after the other runs. But a count in global "
           "memory is read less often than in the stage: a wait for what other blocks do is "
           "missing.",
           most.name + ": " + std::to_string(most.counts.global_read_bytes) +
               " bytes read, the target is " + std::to_string(most.own.global_read_bytes) + '\n'}};
}

}  // namespace cuflash::exercises
