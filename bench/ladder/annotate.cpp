#include "ladder/annotate.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "table.h"
#include "terminal.h"

namespace cuflash::bench {
namespace {

constexpr double kSectorBytes = 32.;

// The requests of one line of source.
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

// Cells are padded before they are coloured, because colour codes have bytes but no width.
constexpr int kCellWidth = 5, kConflictsWidth = 6;
constexpr std::size_t kNumberWidth = kCellWidth + 2;  // a line's number and the gap after it

// The columns to the left of the source. A narrow terminal has no room for all of them.
struct Layout {
  bool narrow;
  const char* titles;
  std::size_t counts_width;
};
constexpr Layout kWide = {false,
                          "    global memory  shared memory\n"
                          " read write sect.   bytes confl. │ line\n",
                          4 * kCellWidth + kConflictsWidth + 6};
constexpr Layout kNarrow = {true, " read sect. confl. │ line\n",
                            2 * kCellWidth + kConflictsWidth + 2};
constexpr std::size_t kWideFrom = 76;

std::string cell(const std::string& text, int width = kCellWidth) {
  return fmt::format("{:>{}}", text, width);
}

std::string bytes_cell(std::uint64_t bytes) {
  return cell(bytes == 0 ? "" : human_count(double(bytes)));
}

// Red if the lanes' bytes would fit into fewer sectors.
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

std::string counts_text(const Line& line, const Layout& layout) {
  if (layout.narrow) {
    return bytes_cell(line.read_bytes) + ' ' + sectors_cell(line) + ' ' + conflicts_cell(line);
  }
  return bytes_cell(line.read_bytes) + ' ' + bytes_cell(line.write_bytes) + ' ' +
         sectors_cell(line) + "   " + bytes_cell(line.shared_bytes) + ' ' + conflicts_cell(line);
}

std::string rule(const Layout& layout) {
  std::string text;
  const std::size_t width = terminal_width();
  for (std::size_t i = 0; i < width; ++i) text += i == layout.counts_width + 1 ? "┼" : "─";
  return text + '\n';
}

// The number of bytes of the first `width` characters.
std::size_t bytes_of(const std::string& text, std::size_t width) {
  std::size_t end = 0;
  for (std::size_t characters = 0; end < text.size(); ++end) {
    if ((text[end] & 0xc0) != 0x80 && characters++ == width) break;
  }
  return end;
}

// Breaks a line of source at spaces into lines of at most `width`; all but the first are indented
// further.
std::vector<std::string> broken(std::string source, std::size_t width) {
  std::vector<std::string> lines;
  const std::size_t code = std::min(source.find_first_not_of(' '), source.size());
  const std::string indent(std::min(code + 4, width / 2), ' ');
  std::size_t begin = code;
  while (display_width(source) > width) {
    std::size_t end = source.rfind(' ', bytes_of(source, width));
    if (end == std::string::npos || end <= begin) end = bytes_of(source, width);
    const std::size_t next = source.find_first_not_of(' ', end);
    lines.push_back(source.substr(0, end));
    source = indent + source.substr(std::min(next, source.size()));
    begin = indent.size();
  }
  lines.push_back(source);
  return lines;
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
  const Layout& layout = terminal_width() < kWideFrom ? kNarrow : kWide;
  const std::size_t source_width = terminal_width() - layout.counts_width - 2 - kNumberWidth;
  const std::string no_counts(layout.counts_width, ' ');
  const auto relative = std::filesystem::path(path).lexically_relative(CUFLASH_SOURCE_DIR);
  std::string text = '\n' + bold(relative.string()) + "\n\n" + layout.titles + rule(layout);
  int number = 0;
  for (std::string source; std::getline(file, source);) {
    const auto line = counted.lines.find(++number);
    std::string counts =
        line == counted.lines.end() ? no_counts : counts_text(line->second, layout);
    std::string shown_number = std::to_string(number);
    for (const std::string& part : broken(source, source_width)) {
      text += row_text(counts, shown_number, part);
      counts = no_counts;
      shown_number.clear();
    }
  }
  return text + rule(layout) + row_text(counts_text(counted.total, layout), "", "the whole file");
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
       {"read, write, bytes: bytes that the threads request, before any cache (k, M, G: thousands, "
        "millions, billions).",
        "sect.: sectors of 32 bytes per request of a warp. The minimum for 32 lanes: 4 if elements "
        "have 4 bytes, 2 if they have 2, 1 if all lanes read the same one.",
        "confl.: bank conflicts, the wavefronts of shared memory beyond the minimum. "
        "The best is 0."}) {
    text += paragraph(sentence);
  }
  return text;
}

}  // namespace cuflash::bench
