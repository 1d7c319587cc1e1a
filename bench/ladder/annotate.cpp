#include "ladder/annotate.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "ladder/table.h"
#include "ladder/terminal.h"

namespace cuflash::bench {
namespace {

constexpr double kSectorBytes = 32.;

// What one line of source asks for.
struct Line {
  std::uint64_t read_bytes = 0, write_bytes = 0;  // of global memory
  std::uint64_t requests = 0, sectors = 0;        // of global memory
  std::uint64_t shared_bytes = 0, shared_requests = 0, conflicts = 0;

  void add(const simt::LineCounts& counts) {
    if (counts.shared) {
      shared_bytes += counts.bytes;
      shared_requests += counts.requests;
      conflicts += counts.conflicts;
      return;
    }
    (counts.write ? write_bytes : read_bytes) += counts.bytes;
    requests += counts.requests;
    sectors += counts.sectors;
  }
};

struct File {
  std::map<int, Line> lines;
  Line total;
};

// Cells are padded before they are coloured: a colour has bytes but no width.
constexpr int kCellWidth = 5, kConflictsWidth = 6;
constexpr std::size_t kCountsWidth = 4 * kCellWidth + kConflictsWidth + 1 + 1 + 3 + 1;

std::string cell(const std::string& text, int width = kCellWidth) {
  return fmt::format("{:>{}}", text, width);
}

std::string bytes_cell(std::uint64_t bytes) {
  return cell(bytes == 0 ? "" : human_count(double(bytes)));
}

// Red where the lanes' bytes would fit into fewer sectors.
std::string sectors_cell(const Line& line) {
  if (line.requests == 0) return cell("");
  const auto text = cell(fmt::format("{:.1f}", double(line.sectors) / double(line.requests)));
  const double needed = double(line.read_bytes + line.write_bytes) / kSectorBytes;
  return double(line.sectors) > 1.5 * needed && line.sectors > line.requests ? red(text) : text;
}

std::string conflicts_cell(const Line& line) {
  if (line.shared_requests == 0) return cell("", kConflictsWidth);
  const auto text = cell(human_count(double(line.conflicts)), kConflictsWidth);
  return line.conflicts > 0 ? red(text) : text;
}

std::string counts_text(const Line& line) {
  return bytes_cell(line.read_bytes) + ' ' + bytes_cell(line.write_bytes) + ' ' +
         sectors_cell(line) + "   " + bytes_cell(line.shared_bytes) + ' ' + conflicts_cell(line);
}

constexpr const char* kTitles =
    "    global memory  shared memory\n"
    " read write sect.   bytes confl. │ line\n";

std::string rule(std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < width; ++i) text += i == kCountsWidth + 1 ? "┼" : "─";
  return text + '\n';
}

// The first `width` characters of UTF-8 text, with an ellipsis where that is not all.
std::string cut(const std::string& text, std::size_t width) {
  std::size_t characters = 0, end = 0, last = 0;
  for (; end < text.size(); ++end) {
    if ((text[end] & 0xc0) == 0x80) continue;
    if (characters == width) return text.substr(0, last) + "…";
    last = end;
    ++characters;
  }
  return text;
}

std::string row_text(const std::string& counts, const std::string& number,
                     const std::string& source) {
  std::string text = counts + " │" + faint(cell(number)) + "  " + source;
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

std::string file_text(const std::string& path, const File& counted) {
  std::ifstream file(path);
  if (!file) return "";
  const std::size_t width = terminal_width(), source_width = width - kCountsWidth - 9;
  const auto relative = std::filesystem::path(path).lexically_relative(CUFLASH_SOURCE_DIR);
  std::string text = '\n' + bold(relative.string()) + "\n\n" + kTitles + rule(width);
  int number = 0;
  for (std::string source; std::getline(file, source);) {
    const auto line = counted.lines.find(++number);
    const bool counts = line != counted.lines.end();
    text += row_text(counts ? counts_text(line->second) : std::string(kCountsWidth, ' '),
                     std::to_string(number), cut(source, source_width));
  }
  return text + rule(width) + row_text(counts_text(counted.total), "", "the whole file");
}

}  // namespace

std::string annotated_sources(const std::vector<simt::LineCounts>& counts) {
  std::map<std::string, File> files;
  for (const simt::LineCounts& line : counts) {
    files[line.file].lines[line.line].add(line);
    files[line.file].total.add(line);
  }
  std::string text;
  for (const auto& [path, file] : files) text += file_text(path, file);
  return text;
}

std::string annotation_legend() {
  std::string text;
  for (const char* sentence :
       {"read, write, bytes: bytes that the threads ask for, before any cache (k, M, G: thousands, "
        "millions, billions).",
        "sect.: pieces of 32 bytes that one request of a warp touches. Perfect for 32 lanes: 4 "
        "where elements have 4 bytes, 2 where they have 2, 1 where all want the same one.",
        "confl.: bank conflicts, passes over the banks of shared memory beyond the fewest. "
        "Perfect: 0."}) {
    for (const std::string& line : wrap(sentence, terminal_width())) text += line + '\n';
  }
  return text;
}

}  // namespace cuflash::bench
