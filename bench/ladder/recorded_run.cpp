#include "ladder/recorded_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "cuflash/workload.h"
#include "ladder/observe.h"

namespace cuflash::bench {
namespace {

// ---- The problem --------------------------------------------------------------------------------

constexpr int kLongest = 512;  // No tile is longer.
constexpr int kUntiled = 40;   // the length for a stage without tiles
constexpr const char *kQTile = "Q tile", *kKVTile = "KV tile";

std::vector<simt::BlockRun> recorded(const Stage& stage, Pass pass, const harness::TestCase& c) {
  simt::record_block(true);
  observe(stage, pass, c);
  simt::record_block(false);
  return simt::take_block_runs();
}

bool has_second_tile(const std::vector<simt::BlockRun>& runs, const std::string& name) {
  for (const simt::BlockRun& run : runs) {
    for (const auto& warp : run.warps) {
      for (const simt::WarpEvent& event : warp) {
        if (event.tile.name == name && event.tile.number > 0) return true;
      }
    }
  }
  return false;
}

bool has_second_block(const std::vector<simt::BlockRun>& runs) {
  return std::any_of(runs.begin(), runs.end(),
                     [](const simt::BlockRun& run) { return run.blocks > 1; });
}

// The largest n up to kLongest for which `beyond` of a run with this length is false; 0 if it is
// false for all.
template <class Run, class Beyond>
int largest(Run run, Beyond beyond) {
  if (!beyond(run(kLongest))) return 0;
  int below = 0, above = kLongest;
  for (int n = 16; n < kLongest && above == kLongest; n *= 2) {
    (beyond(run(n)) ? above : below) = n;
  }
  while (above - below > 1) {
    const int middle = (above + below) / 2;
    (beyond(run(middle)) ? above : below) = middle;
  }
  return below;
}

// The case with the smallest head_dim that all stages support.
harness::TestCase case_of(const std::vector<const Stage*>& stages, Pass pass, DType dtype,
                          int seq_q, int seq_kv) {
  const auto has = [&](int head_dim) {
    return std::all_of(stages.begin(), stages.end(), [&](const Stage* stage) {
      return stage->facts(pass).head_dims.has(head_dim);
    });
  };
  int head_dim = 32;
  while (!has(head_dim)) head_dim += 32;
  harness::TestCase c;
  harness::parse_test_case(
      fmt::format("b1_h1_q{}k{}_d{}_{}", seq_q, seq_kv, head_dim, dtype_name(dtype)), c);
  return c;
}

// A length for the sequence whose tiles have this name, while the other has one row.
int small_length(const Stage& stage, Pass pass, DType dtype, const std::string& tile_name) {
  const auto run = [&](int n) {
    const bool of_queries = tile_name == kQTile;
    return recorded(stage, pass,
                    case_of({&stage}, pass, dtype, of_queries ? n : 1, of_queries ? 1 : n));
  };
  const int tile = largest(run, [&](const auto& runs) { return has_second_tile(runs, tile_name); });
  if (tile > 0) return 2 * tile + tile / 4;
  const int block = largest(run, has_second_block);
  return block > 1 ? block : kUntiled;
}

// ---- Steps --------------------------------------------------------------------------------------

// The lines of a source file, and the paper's lines that each belongs to.
class Source {
 public:
  explicit Source(const std::string& path) {
    std::ifstream file(path);
    std::string paper;
    for (std::string line; std::getline(file, line);) {
      const std::size_t tag = line.find("// [FA");
      const bool alone = tag == line.find_first_not_of(' ');
      if (!line.empty() && line[0] == '}') paper.clear();
      if (tag != std::string::npos && alone) paper = text_of(line.substr(tag + 3));
      papers_.push_back(tag == std::string::npos || alone || is_loop(line)
                            ? paper
                            : text_of(line.substr(tag + 3)));
    }
  }
  std::string paper(int line) const {
    const auto n = static_cast<std::size_t>(line) - 1;
    return n < papers_.size() ? papers_[n] : "";
  }

 private:
  static bool is_loop(const std::string& line) {
    return line.find("for (") != std::string::npos && line.find('{') != std::string::npos;
  }
  // The tag's text without the note after it.
  static std::string text_of(const std::string& tag) {
    std::string text = tag.substr(0, tag.find("    //"));
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }
  std::vector<std::string> papers_;
};

const Source& source_at(const std::string& path) {
  static std::map<std::string, Source> sources;
  return sources.try_emplace(path, path).first->second;
}

// The paper's line of a place: its own, or the one of the kernel's line that calls it.
std::string paper_of(const simt::BlockRun::Place& place) {
  const Source& source = source_at(place.file);
  const std::string own = source.paper(place.line);
  return own.empty() ? source.paper(place.kernel_line) : own;
}

// Events of one warp, at one place or at the places of a loop's body.
struct Piece {
  int interval;
  simt::WarpTile tile;
  std::string paper;
  std::vector<int> places, arrays;
  int times, first, end;
  bool waits = false;   // at a barrier
  int k = 0;            // its step in the interval
  bool stands = false;  // until another warp has overtaken this one

  bool is_near(const Piece& other) const {
    return interval == other.interval && tile.name == other.tile.name &&
           tile.number == other.tile.number;
  }
  bool is_like(const Piece& other) const {
    return is_near(other) && places == other.places && arrays == other.arrays && !waits &&
           !other.waits;
  }
};

// Joins neighbours that `belong` together.
template <class Belong>
std::vector<Piece> joined(std::vector<Piece> pieces, Belong belong) {
  std::vector<Piece> list;
  for (Piece& piece : pieces) {
    if (!list.empty() && belong(list.back(), piece)) {
      list.back().end = piece.end;
    } else {
      list.push_back(std::move(piece));
    }
  }
  return list;
}

// One piece per place and array.
std::vector<Piece> pieces_by_line(const simt::BlockRun& run,
                                  const std::vector<simt::WarpEvent>& events) {
  std::vector<Piece> pieces;
  for (std::size_t n = 0; n < events.size(); ++n) {
    const simt::WarpEvent& event = events[n];
    const simt::BlockRun::Place& place = run.places[static_cast<std::size_t>(event.place)];
    const int at = static_cast<int>(n);
    pieces.push_back(
        {event.interval, event.tile, paper_of(place), {event.place}, {event.array}, 1, at, at + 1});
    pieces.back().waits = event.kind == simt::WarpEvent::Kind::kWait;
  }
  return joined(std::move(pieces), [](const Piece& a, const Piece& b) { return a.is_like(b); });
}

// The number of repetitions of the `length` pieces from `at` on.
int repeats(const std::vector<Piece>& pieces, std::size_t at, std::size_t length) {
  for (std::size_t n = at; n < at + length; ++n) {
    if (!pieces[n].is_near(pieces[at])) return 1;
  }
  std::size_t end = at + length;
  while (end < pieces.size() && pieces[end].is_like(pieces[end - length])) ++end;
  return static_cast<int>((end - at) / length);
}

// Makes one piece of each loop over several places or arrays that runs more than once.
std::vector<Piece> with_loops(const std::vector<Piece>& pieces) {
  constexpr std::size_t kLongestBody = 16;
  std::vector<Piece> folded;
  for (std::size_t at = 0; at < pieces.size();) {
    std::size_t body = 1, most = 1;
    for (std::size_t length = 2; length <= kLongestBody && at + length <= pieces.size(); ++length) {
      const auto times = static_cast<std::size_t>(repeats(pieces, at, length));
      if (times > 1 && length * times > most) {
        body = length;
        most = length * times;
      }
    }
    Piece piece = pieces[at];
    piece.times = static_cast<int>(most / body);
    for (std::size_t n = at + 1; n < at + body; ++n) {
      piece.places.push_back(pieces[n].places[0]);
      piece.arrays.push_back(pieces[n].arrays[0]);
    }
    // Requests of one line to several arrays are not a loop.
    if (std::equal(piece.places.begin() + 1, piece.places.end(), piece.places.begin())) {
      piece.places.resize(1);
      piece.times = 1;
    }
    at += most;
    piece.end = pieces[at - 1].end;
    folded.push_back(std::move(piece));
  }
  return folded;
}

// A helper that the compiler has not inlined belongs to the paper's line that follows it.
void fill_papers(std::vector<Piece>& pieces) {
  for (std::size_t n = pieces.size(); n-- > 1;) {
    if (pieces[n - 1].paper.empty() && pieces[n].is_near(pieces[n - 1])) {
      pieces[n - 1].paper = pieces[n].paper;
    }
  }
}

std::vector<Piece> pieces_of(const simt::BlockRun& run,
                             const std::vector<simt::WarpEvent>& events) {
  const auto share_arrays = [](const Piece& a, const Piece& b) {
    return a.is_near(b) && a.places == b.places && !a.waits && !b.waits &&
           std::find_first_of(a.arrays.begin(), a.arrays.end(), b.arrays.begin(), b.arrays.end()) !=
               a.arrays.end();
  };
  std::vector<Piece> pieces = joined(with_loops(pieces_by_line(run, events)), share_arrays);
  fill_papers(pieces);
  return pieces;
}

void add_to_step(Step& step, Piece&& piece, int warp) {
  const StepPart::Events events = {warp, piece.first, piece.end};
  for (StepPart& part : step.parts) {
    if (part.places != piece.places || part.times != piece.times) continue;
    part.warps.push_back(events);
    return;
  }
  step.parts.push_back({std::move(piece.places), piece.times, {events}});
}

// The last arrivals at the phases of the barriers, as (interval, k).
class Arrivals {
 public:
  using Moment = std::pair<int, int>;

  // `waiting` is true at a named barrier, where a wait is also an arrival.
  void note(const simt::WarpEvent& event, int k, bool waiting) {
    Moment& last = (waiting ? waiting_ : passing_)
                       .try_emplace({event.barrier, event.phase}, Moment{0, 0})
                       .first->second;
    last = std::max(last, {event.interval, k});
  }
  // The first k in its interval at which this wait can end.
  int end(const simt::WarpEvent& wait) const {
    return std::max(after(passing_, wait) + 1, after(waiting_, wait));
  }

 private:
  using Moments = std::map<std::pair<int, int>, Moment>;  // by barrier and phase
  static int after(const Moments& moments, const simt::WarpEvent& wait) {
    const auto found = moments.find({wait.barrier, wait.phase});
    const bool here = found != moments.end() && found->second.first == wait.interval;
    return here ? found->second.second : -1;
  }
  Moments passing_, waiting_;
};

using Pieces = std::vector<std::vector<Piece>>;  // of each warp

// Gives each piece its k: one more than the warp's previous piece, but a wait comes after the
// arrivals that it waits for, and a piece that stands after `overtaking`. True if one has changed.
bool order(const simt::BlockRun& run, Pieces& warps, const Piece* overtaking) {
  Arrivals arrivals;
  for (std::size_t warp = 0; warp < warps.size(); ++warp) {
    for (const Piece& piece : warps[warp]) {
      for (int n = piece.first; n < piece.end; ++n) {
        const simt::WarpEvent& event = run.warps[warp][static_cast<std::size_t>(n)];
        if (event.barrier < 0) continue;
        const bool named = run.barriers[static_cast<std::size_t>(event.barrier)].named;
        if (!piece.waits || named) arrivals.note(event, piece.k, piece.waits);
      }
    }
  }
  bool changed = false;
  for (std::size_t warp = 0; warp < warps.size(); ++warp) {
    int interval = 0, next = 0;
    for (Piece& piece : warps[warp]) {
      int k = piece.interval == interval ? next : 0;
      if (piece.waits) {
        k = std::max(k, arrivals.end(run.warps[warp][static_cast<std::size_t>(piece.first)]));
      }
      if (piece.stands) k = std::max(k, overtaking->k + 1);
      changed |= k != piece.k;
      piece.k = k;
      interval = piece.interval;
      next = k + 1;
    }
  }
  return changed;
}

// False if some pieces wait for each other.
bool ordered(const simt::BlockRun& run, Pieces& warps, const Piece* overtaking = nullptr) {
  std::size_t most = 1;
  for (const auto& pieces : warps) most += pieces.size();
  while (order(run, warps, overtaking)) {
    if (most-- == 0) return false;
  }
  return true;
}

Pieces ordered_pieces(const simt::BlockRun& run) {
  Pieces warps;
  for (const auto& events : run.warps) warps.push_back(pieces_of(run, events));
  ordered(run, warps);
  return warps;
}

// The k-th pieces of all warps in an interval are one step.
std::vector<Step> steps_of(Pieces warps) {
  std::map<std::pair<int, int>, Step> steps;  // by interval and k
  for (std::size_t warp = 0; warp < warps.size(); ++warp) {
    for (Piece& piece : warps[warp]) {
      Step& step = steps[{piece.interval, piece.k}];
      step.interval = piece.interval;
      // The tile of the first warp that has one; not of one that overtakes the others.
      if (step.tile.name.empty() || piece.stands) step.tile = piece.tile;
      if (step.paper.empty() || piece.stands) step.paper = piece.paper;
      add_to_step(step, std::move(piece), static_cast<int>(warp));
    }
  }
  std::vector<Step> list;
  for (auto& [key, step] : steps) list.push_back(std::move(step));
  return list;
}

Timeline timeline(const simt::BlockRun& run, Pieces warps) {
  std::vector<Step> steps = steps_of(std::move(warps));
  std::vector<Flight> flights = flights_of(run, steps);
  std::vector<std::vector<int>> phases = phases_of(run, steps);
  return {std::move(steps), std::move(flights), std::move(phases)};
}

bool of_two_warps(const simt::Finding& finding) {
  return finding.accesses.size() == 2 && finding.accesses[0].warp != finding.accesses[1].warp;
}

// ---- Races --------------------------------------------------------------------------------------

// True if the request contains the byte at this offset of its array.
bool contains(const simt::WarpEvent& request, std::int64_t offset) {
  for (const simt::LaneSpan& span : request.lanes) {
    for (int n = 0; n < span.lanes; ++n) {
      const std::int64_t from = span.offset + n * span.stride;
      if (from <= offset && offset < from + request.lane_bytes) return true;
    }
  }
  return false;
}

// True if this piece of a warp makes the finding's access.
bool makes(const simt::BlockRun& run, const Piece& piece, const simt::FindingAccess& access,
           const simt::Finding& finding) {
  const std::string tile = fmt::format("{} {}", piece.tile.name, piece.tile.number);
  if (!access.tile.empty() && access.tile != tile) return false;
  const auto& events = run.warps[static_cast<std::size_t>(access.warp)];
  return std::any_of(events.begin() + piece.first, events.begin() + piece.end, [&](auto& event) {
    const simt::BlockRun::Place& place = run.places[static_cast<std::size_t>(event.place)];
    const std::string file = std::filesystem::path(place.file).filename().string();
    return access.location == fmt::format("{}:{}", file, place.line) && event.array >= 0 &&
           run.arrays[static_cast<std::size_t>(event.array)].name == finding.array &&
           contains(event, finding.offset);
  });
}

bool is_same_block(const simt::Finding& finding, const simt::BlockRun& run) {
  const auto& block = finding.block;
  return block && block->x == run.block.x && block->y == run.block.y && block->z == run.block.z;
}

// The launch's pieces in an order in which the race's access `by` overtakes `of`: all other warps
// stand still before `of` or, if the warp of `by` waits for them, the warp of `of` alone. Empty if
// the clock that all warps share does not show `of` first.
Pieces overtaken(const simt::BlockRun& run, const simt::Finding& race,
                 const simt::FindingAccess& of, const simt::FindingAccess& by, const Piece*& first,
                 const Piece*& second) {
  const auto slow = static_cast<std::size_t>(of.warp), fast = static_cast<std::size_t>(by.warp);
  for (const bool all : {true, false}) {
    Pieces warps = ordered_pieces(run);
    first = second = nullptr;
    for (const Piece& a : warps[slow]) {
      if (first != nullptr || !makes(run, a, of, race)) continue;
      for (const Piece& b : warps[fast]) {
        if (b.interval != a.interval || b.k <= a.k || !makes(run, b, by, race)) continue;
        first = &a;
        second = &b;
        break;
      }
    }
    if (first == nullptr) return {};
    const int interval = first->interval, k = first->k;
    for (std::size_t warp = 0; warp < warps.size(); ++warp) {
      for (Piece& piece : warps[warp]) {
        piece.stands =
            piece.interval == interval && piece.k >= k && (warp == slow || (all && warp != fast));
      }
    }
    if (ordered(run, warps, second)) return warps;
  }
  return {};
}

int step_of(const std::vector<Step>& steps, int warp, int event) {
  for (std::size_t n = 0; n < steps.size(); ++n) {
    for (const StepPart& part : steps[n].parts) {
      for (const StepPart::Events& of : part.warps) {
        if (of.warp == warp && of.first <= event && event < of.end) return static_cast<int>(n);
      }
    }
  }
  return 0;
}

std::optional<Overtaking> overtaking_of(const simt::Finding& finding,
                                        const std::vector<RecordedLaunch>& launches) {
  const bool race = finding.kind() == simt::FindingKind::kSharedRace;
  if (!race || !of_two_warps(finding)) return {};
  for (std::size_t n = 0; n < launches.size(); ++n) {
    const simt::BlockRun& run = launches[n].run;
    if (run.kernel != finding.kernel || !is_same_block(finding, run)) continue;
    // A report may list the two accesses in either order.
    for (const int slow : {0, 1}) {
      const auto &of = finding.accesses[static_cast<std::size_t>(slow)],
                 &by = finding.accesses[static_cast<std::size_t>(1 - slow)];
      const Piece *first = nullptr, *second = nullptr;
      Pieces warps = overtaken(run, finding, of, by, first, second);
      if (warps.empty()) continue;
      const int one = first->first, other = second->first;
      Timeline order = timeline(run, std::move(warps));
      const int at = step_of(order.steps, of.warp, one);
      const int before = step_of(order.steps, by.warp, other);
      return Overtaking{std::move(order), n, slow == 0 ? at : before, slow == 0 ? before : at};
    }
  }
  return {};
}

// The KV tiles in the order of the launch, if it ends with the rows' LSE.
std::vector<int> softmax_tiles(const simt::BlockRun& run, const std::vector<Step>& steps) {
  const auto is_lse = [](const simt::LoggedArray& array) { return array.name == "LSE"; };
  std::vector<int> tiles;
  if (std::none_of(run.arrays.begin(), run.arrays.end(), is_lse)) return tiles;
  for (const Step& step : steps) {
    if (step.tile.name != kKVTile) continue;
    if (std::count(tiles.begin(), tiles.end(), step.tile.number) == 0) {
      tiles.push_back(step.tile.number);
    }
  }
  return tiles;
}

}  // namespace

StepCounts counts_of(const simt::BlockRun& run, const StepPart& part) {
  StepCounts sum;
  for (const StepPart::Events& of_warp : part.warps) {
    const auto& events = run.warps[static_cast<std::size_t>(of_warp.warp)];
    for (int n = of_warp.first; n < of_warp.end; ++n) {
      const simt::WarpEvent& event = events[static_cast<std::size_t>(n)];
      if (event.bytes == 0) continue;
      ++sum.requests;
      ++(event.shared ? sum.shared_requests : sum.global_requests);
      sum.bytes += event.bytes;
      sum.sectors += event.sectors;
      sum.wavefronts += event.wavefronts;
      sum.conflicts += event.conflicts;
    }
  }
  return sum;
}

harness::TestCase small_case(const std::vector<const Stage*>& stages, Pass pass, DType dtype,
                             bool causal) {
  int seq_q = 0, seq_kv = 0;
  for (const Stage* stage : stages) {
    seq_q = std::max(seq_q, small_length(*stage, pass, dtype, kQTile));
    seq_kv = std::max(seq_kv, small_length(*stage, pass, dtype, kKVTile));
  }
  harness::TestCase c = case_of(stages, pass, dtype, seq_q, seq_kv);
  c.problem.causal = causal;
  return c;
}

RecordedRun record(const Stage& stage, Pass pass, const harness::TestCase& c) {
  simt::take_findings();
  RecordedRun recorded_run = {&stage, pass, c, {}, {}};
  for (simt::BlockRun& run : recorded(stage, pass, c)) {
    Timeline clock = timeline(run, ordered_pieces(run));
    std::vector<SoftmaxRows> rows;
    if (pass == CUFLASH_FORWARD) rows = softmax_rows(stage, c, softmax_tiles(run, clock.steps));
    recorded_run.launches.push_back({std::move(run), std::move(clock), std::move(rows)});
  }
  for (simt::Finding& finding : simt::take_findings()) {
    auto overtaking = overtaking_of(finding, recorded_run.launches);
    recorded_run.findings.push_back({std::move(finding), std::move(overtaking)});
  }
  // First those that one can see: a warp overtakes another.
  std::stable_sort(recorded_run.findings.begin(), recorded_run.findings.end(),
                   [](const RecordedFinding& a, const RecordedFinding& b) {
                     const auto rank = [](const RecordedFinding& finding) {
                       return finding.overtaking ? 0 : of_two_warps(finding) ? 1 : 2;
                     };
                     return rank(a) < rank(b);
                   });
  return recorded_run;
}

}  // namespace cuflash::bench
