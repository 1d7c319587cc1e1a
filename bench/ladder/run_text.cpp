// A recorded run as text.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "harness/stage_check.h"
#include "ladder/recorded_run.h"
#include "table.h"
#include "terminal.h"

namespace cuflash::bench {
namespace {

// The columns to the left of the source. A narrow terminal has no room for all of them.
constexpr std::size_t kWideFrom = 90;
constexpr std::size_t kWideWidth = 62, kNarrowWidth = 43;
constexpr const char* kWideTitles =
    " step  line warps  what                req. bytes sect. confl. │ source\n";
constexpr const char* kNarrowTitles = " step  line what               bytes confl. │ source\n";

bool is_narrow() { return terminal_width() < kWideFrom; }

std::string line_of(const std::string& path, int number) {
  static std::map<std::string, std::vector<std::string>> files;
  std::vector<std::string>& lines = files[path];
  if (lines.empty()) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      lines.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
    }
  }
  const auto n = static_cast<std::size_t>(number) - 1;
  return n < lines.size() ? lines[n] : "";
}

// "0-3", "0,2".
std::string warps_text(const StepPart& part) {
  std::string text;
  for (std::size_t n = 0; n < part.warps.size();) {
    std::size_t last = n;
    while (last + 1 < part.warps.size() && part.warps[last + 1].warp == part.warps[last].warp + 1) {
      ++last;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ",", part.warps[n].warp);
    if (last > n) text += fmt::format("-{}", part.warps[last].warp);
    n = last + 1;
  }
  return text;
}

const char* word(simt::WarpEvent::Kind kind) {
  using Kind = simt::WarpEvent::Kind;
  switch (kind) {
    case Kind::kShuffle:
      return "shuffle";
    case Kind::kVote:
      return "vote";
    case Kind::kProduct:
      return "product";
    case Kind::kSyncWarp:
      return "warp sync";
    case Kind::kBarrier:
      return "barrier";
    case Kind::kCommitCopies:
    case Kind::kCommitProducts:
    case Kind::kCommitStores:
      return "commit";
    case Kind::kArrive:
      return "arrive";
    case Kind::kWait:
    case Kind::kWaitCopies:
    case Kind::kWaitProducts:
    case Kind::kWaitStores:
      return "wait";
    default:
      return "";
  }
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& one : words) text += (text.empty() ? "" : " ") + one;
  return text;
}

// "K → sK", "sQ sK →", "shuffle".
std::string what(const simt::BlockRun& run, const StepPart& part) {
  using Kind = simt::WarpEvent::Kind;
  std::vector<std::string> reads, writes, others;
  for (const StepPart::Events& of_warp : part.warps) {
    for (int n = of_warp.first; n < of_warp.end; ++n) {
      const simt::WarpEvent& event =
          run.warps[static_cast<std::size_t>(of_warp.warp)][static_cast<std::size_t>(n)];
      const std::string name =
          event.array < 0 ? "?" : run.arrays[static_cast<std::size_t>(event.array)].name;
      switch (event.kind) {
        case Kind::kRead:
        case Kind::kCopyRead:
          add_once(reads, name);
          break;
        case Kind::kWrite:
        case Kind::kAtomic:
        case Kind::kCopyWrite:
          add_once(writes, name);
          break;
        case Kind::kBoxCopy:
          add_once(event.shared ? writes : reads, name);
          break;
        case Kind::kBoxStore:
        case Kind::kBoxAdd:
          add_once(event.shared ? reads : writes, name);
          break;
        default:
          add_once(others, word(event.kind));
      }
    }
  }
  if (!reads.empty() || !writes.empty()) {
    others.insert(others.begin(), joined(reads) +
                                      (reads.empty()    ? "→ "
                                       : writes.empty() ? " →"
                                                        : " → ") +
                                      joined(writes));
  }
  return joined(others);
}

std::string cut(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  std::size_t end = 0;
  for (std::size_t characters = 0; end < text.size(); ++end) {
    if ((text[end] & 0xc0) != 0x80 && characters++ == width - 1) break;
  }
  return text.substr(0, end) + "…";
}

std::string padded(const std::string& text, std::size_t width) {
  const std::string shown = cut(text, width);
  return shown + std::string(width - display_width(shown), ' ');
}

std::string count_cell(std::uint64_t count, bool any) {
  return any ? human_count(double(count)) : "";
}

// The line that a part runs, or the first of a loop's body.
std::string source_text(const simt::BlockRun& run, const StepPart& part) {
  const auto place = [&](int n) { return run.places[static_cast<std::size_t>(n)]; };
  const simt::BlockRun::Place first = place(part.places[0]);
  if (part.places.size() == 1) {
    const std::string line = line_of(first.file, first.kernel_line);
    return first.kernel_line == first.line ? line : fmt::format("{}: {}", first.kernel_line, line);
  }
  int from = first.line, to = first.line;
  for (const int n : part.places) {
    if (place(n).file != first.file) continue;
    from = std::min(from, place(n).line);
    to = std::max(to, place(n).line);
  }
  return fmt::format("{} × {}-{}: {}", part.times, from, to, line_of(first.file, from));
}

std::string part_text(const simt::BlockRun& run, const StepPart& part, const std::string& number) {
  const StepCounts counts = counts_of(run, part);
  const bool narrow = is_narrow();
  const int line = run.places[static_cast<std::size_t>(part.places[0])].line;
  std::string text = fmt::format("{:>5} {:>5} ", number, line);
  if (!narrow) text += padded(warps_text(part), 6) + ' ';
  text += padded(what(run, part), 18) + ' ';
  if (!narrow) text += fmt::format("{:>5} ", count_cell(counts.requests, counts.requests > 0));
  text += fmt::format("{:>5} ", count_cell(counts.bytes, counts.requests > 0));
  if (!narrow) {
    text += counts.global_requests == 0
                ? std::string(6, ' ')
                : fmt::format("{:>5.1f} ", double(counts.sectors) / double(counts.global_requests));
  }
  const std::string conflicts =
      fmt::format("{:>6}", count_cell(counts.conflicts, counts.shared_requests > 0));
  text += counts.conflicts > 0 ? red(conflicts) : conflicts;
  const std::size_t left = narrow ? kNarrowWidth : kWideWidth;
  text += " │ " + cut(source_text(run, part), terminal_width() - left - 3);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

// The place of a step: its tile and the paper's line.
std::string place_text(const Step& step) {
  std::vector<std::string> words;
  if (!step.tile.name.empty()) {
    words.push_back(fmt::format("{} {}", step.tile.name, step.tile.number));
  }
  if (!step.paper.empty()) words.push_back(step.paper);
  std::string text;
  for (const std::string& one : words) text += (text.empty() ? "" : " · ") + one;
  return text.empty() ? "no tile" : text;
}

std::string launch_text(const RecordedLaunch& launch, int& number) {
  const simt::BlockRun& run = launch.run;
  std::string text = '\n' + paragraph(fmt::format(
                                "{}, block ({},{},{}) of {}, {} warps, {} bytes of shared memory",
                                harness::short_kernel_name(run.kernel), run.block.x, run.block.y,
                                run.block.z, run.blocks, run.warps.size(), run.shared_bytes));
  text += '\n' + std::string(is_narrow() ? kNarrowTitles : kWideTitles);
  std::string last;
  for (const Step& step : launch.clock.steps) {
    const std::string place = place_text(step);
    if (place != last) text += bold(cut(place, terminal_width())) + '\n';
    last = place;
    std::string shown = std::to_string(number++);
    for (const StepPart& part : step.parts) {
      text += part_text(run, part, shown);
      shown.clear();
    }
  }
  return text;
}

}  // namespace

std::string run_text(const RecordedRun& run) {
  std::string text;
  int number = 0;
  for (const RecordedLaunch& launch : run.launches) text += launch_text(launch, number);
  for (const simt::Finding& finding : run.findings) text += '\n' + finding.message();
  return text;
}

std::string run_legend() {
  return paragraph(
             "A step is one source line of each warp. Warps run side by side: only barriers order "
             "them. The clock is logical, and nothing here is a time.") +
         paragraph(
             "what: from → to. sect.: sectors of 32 bytes per request of global memory. "
             "confl.: bank conflicts.");
}

}  // namespace cuflash::bench
