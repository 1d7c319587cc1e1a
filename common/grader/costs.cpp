#include "costs.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <tuple>

#include "access_history.h"
#include "difference.h"
#include "reference/layout.h"
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

// ---- What a classical waste would cost, summed over the blocks of the forward pass --------------

struct Block {
  int rows;             // its queries
  int kv_tiles;         // in which one of them sees a key
  int first_key, keys;  // the first key of these tiles, and how many keys are in them
};

template <class F>
std::int64_t sum_over_blocks(const Sample& s, const F& f) {
  const Problem& p = s.problem;
  std::int64_t sum = 0;
  for (int i0 = 0; i0 < p.seq_q; i0 += s.walk.block_q) {
    Block block;
    block.rows = std::min(s.walk.block_q, p.seq_q - i0);
    const int tile = s.walk.block_kv;
    const auto of_first = reference::visible_keys(p, i0);
    const auto of_last = reference::visible_keys(p, i0 + block.rows - 1);
    block.first_key = of_first.first / tile * tile;
    block.kv_tiles = (of_last.first + of_last.count - block.first_key + tile - 1) / tile;
    block.keys = std::min(block.kv_tiles * tile, p.seq_kv - block.first_key);
    sum += f(block);
  }
  return sum * p.batch * p.heads_q;
}

std::int64_t row_bytes(const Sample& s) {
  return static_cast<std::int64_t>(s.problem.head_dim * element_bytes(s.problem.dtype));
}

std::int64_t q_again(const Sample& s) {
  return row_bytes(s) *
         sum_over_blocks(s, [](const Block& b) { return std::int64_t{b.kv_tiles - 1} * b.rows; });
}
std::int64_t hidden_tiles(const Sample& s) {
  return row_bytes(s) *
         sum_over_blocks(s, [&](const Block& b) { return s.problem.seq_kv - b.keys; });
}

std::int64_t tiles_before_the_first(const Sample& s) {
  return row_bytes(s) * sum_over_blocks(s, [](const Block& b) { return b.first_key; });
}

std::int64_t rows_past_the_end(const Sample& s) {
  const auto sum = sum_over_blocks(
      s, [&](const Block& b) { return std::int64_t{b.kv_tiles} * s.walk.block_kv - b.keys; });
  const std::int64_t q_rows = std::int64_t{s.problem.batch} * s.problem.heads_q *
                              (s.walk.block_q - 1 - (s.problem.seq_q - 1) % s.walk.block_q);
  return row_bytes(s) * (2 * sum + q_rows);
}

struct Waste {
  const char* id;
  int at_most;                          // how many times the cost may occur
  std::int64_t (*cost)(const Sample&);  // in bytes read
  const char* message;
};

constexpr Waste kWastes[] = {
    {"q-loaded-again", 1, q_again,
     "Q is loaded again for every KV tile. The block's queries stay the same: load their tile "
     "once, before the loop."},
    {"hidden-tiles-loaded", 2, hidden_tiles,
     "Tiles are loaded in which no query of the block sees a key: the mask hides all of them. "
     "kv_tiles() walks only through those that count."},
    {"hidden-tiles-loaded", 2, tiles_before_the_first,
     "With a window, the first tiles are loaded although no query of the block sees a key in them. "
     "kv_tiles() walks only through those that count."},
    {"tail-read-again", 1, rows_past_the_end,
     "Rows past the end are read: the last row stands in for them again and again. They need no "
     "bytes at all: write zeros."},
};

bool fits(const Waste& waste, const std::vector<Sample>& samples) {
  for (int times = 1; times <= waste.at_most; ++times) {
    const auto costs = [&](const Sample& s) { return read_excess(s) == times * waste.cost(s); };
    if (std::all_of(samples.begin(), samples.end(), costs)) return true;
  }
  return false;
}

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

// What a block reads from global memory that the same block of the stage does not.
std::string needless_reads(const Stage& exercise, const Stage& own, const Sample& s) {
  const AccessHistory mine(exercise, s.pass, s.problem, s.want->inputs),
      theirs(own, s.pass, s.problem, s.want->inputs);
  using Place = std::tuple<int, std::uint64_t, int>;  // launch, block, array
  const auto reads_of = [](const AccessHistory& history) {
    std::map<Place, Elements> reads;
    for (const Event& event : history.events()) {
      if (event.write || event.shared) continue;
      reads[{event.element->launch, event.block, event.element->array}].insert(*event.element);
    }
    return reads;
  };
  const auto wanted = reads_of(theirs);
  for (const auto& [place, elements] : reads_of(mine)) {
    const auto known = wanted.find(place);
    std::vector<Element> needless;
    for (const Element& e : elements) {
      if (known == wanted.end() || known->second.count(e) == 0) needless.push_back(e);
    }
    if (needless.empty()) continue;
    return s.name + ": block " + std::to_string(std::get<1>(place)) + " reads " + box(needless) +
           ", which the same block of the stage does not\n";
  }
  return "";
}

}  // namespace

std::vector<Diagnosis> excess_bytes(const std::vector<Sample>& samples, const Stage& exercise,
                                    const Stage& own) {
  const auto bad = [](const Sample& s) { return read_excess(s) > 0 || write_excess(s) > 0; };
  if (std::none_of(samples.begin(), samples.end(), bad)) return {};
  const Sample& example =
      worst(samples, [](const Sample& s) { return std::max(read_excess(s), write_excess(s)); });
  std::vector<Diagnosis> found;
  for (const Waste& waste : kWastes) {
    if (samples.front().pass != CUFLASH_FORWARD || samples.front().walk.block_kv == 0) break;
    if (fits(waste, samples)) found.push_back({waste.id, waste.message, in_numbers(example)});
  }
  if (!found.empty()) return found;
  const bool reads = read_excess(example) > 0;
  return {{reads ? "too-many-bytes-read" : "too-many-bytes-written",
           "The values are right, but more global memory is accessed than the stage needs " +
               where_bad(samples, bad) + '.',
           (reads ? needless_reads(exercise, own, *smallest_first(samples, bad).front()) : "") +
               in_numbers(example)}};
}

std::vector<Diagnosis> excess_conflicts(const std::vector<Sample>& samples) {
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
             " The tile is written there, and needs no padding for whole rows: let neighbouring "
             "threads take neighbouring elements of a row. They then write to neighbouring "
             "banks, and read neighbouring addresses. Where a warp writes parts of several rows, "
             "the distance between the rows must put these parts into different banks.",
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
           "bytes. A swizzle parts them, or padding as wide as the access: 4 bytes if a lane "
           "takes 4, 16 bytes if it takes 16. A row of which 16 bytes are loaded at once must "
           "begin at a multiple of 16.",
       numbers}};
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
