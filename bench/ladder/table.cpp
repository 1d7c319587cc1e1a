#include "ladder/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

namespace cuflash::bench {
namespace {

constexpr const char* kGap = "  ";

// Characters on the screen, of UTF-8 text.
std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string pad(const std::string& text, std::size_t width, bool right) {
  const std::size_t used = display_width(text);
  const std::string spaces(width > used ? width - used : 0, ' ');
  return right ? spaces + text : text + spaces;
}

std::string trim_right(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.back().empty()) {
      lines.back() = word;
    } else if (display_width(lines.back()) + 1 + display_width(word) <= width) {
      lines.back() += ' ' + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), false});
}

void Table::add_sentence(const std::string& name, const std::string& sentence) {
  rows_.push_back({{name, sentence}, true});
}

std::string Table::text(std::size_t width) const {
  // Break the cells into lines, then see how wide each column is.
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  const auto lines_of = [&](const Row& row, std::size_t i) {
    const std::size_t limit = row.sentence && i == 1 ? width - widths[0] - 2 : columns_[i].wrap;
    return limit > 0 ? wrap(row.cells[i], limit) : std::vector<std::string>{row.cells[i]};
  };
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < (row.sentence ? 1 : row.cells.size()); ++i) {
      for (const auto& line : lines_of(row, i))
        widths[i] = std::max(widths[i], display_width(line));
    }
  }

  std::string out;
  const auto print = [&](const std::vector<std::vector<std::string>>& cells) {
    std::size_t height = 1;
    for (const auto& cell : cells) height = std::max(height, cell.size());
    for (std::size_t n = 0; n < height; ++n) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        line += (i ? kGap : "") +
                pad(n < cells[i].size() ? cells[i][n] : "", widths[i], columns_[i].right);
      }
      out += trim_right(line);
    }
  };

  std::vector<std::vector<std::string>> titles;
  std::string rule;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back({columns_[i].title});
    for (std::size_t n = 0; n < widths[i] + (i ? 2 : 0); ++n) rule += "─";
  }
  print(titles);
  out += rule + '\n';
  for (const Row& row : rows_) {
    std::vector<std::vector<std::string>> cells;
    for (std::size_t i = 0; i < row.cells.size(); ++i) cells.push_back(lines_of(row, i));
    if (row.sentence) {
      for (std::size_t n = 0; n < cells[1].size(); ++n) {
        out += trim_right(pad(n == 0 ? row.cells[0] : "", widths[0], false) + kGap + cells[1][n]);
      }
    } else {
      print(cells);
    }
  }
  return out;
}

std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string human_bytes(double bytes) {
  if (bytes < 999.5) return fmt::format("{:.0f} B", bytes);
  const char* units[] = {"kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (bytes /= 1e3; bytes >= 999.5 && unit < 3; ++unit) bytes /= 1e3;
  return three_digits(bytes) + ' ' + units[unit];
}

std::string human_count(double count) {
  if (count < 999.5) return fmt::format("{:.0f}", count);
  const char* units[] = {"k", "M", "G", "T"};
  std::size_t unit = 0;
  for (count /= 1e3; count >= 999.5 && unit < 3; ++unit) count /= 1e3;
  return three_digits(count) + units[unit];
}

std::string human_ms(double ms) {
  return ms < 1. ? fmt::format("{:.1f} µs", ms * 1e3) : fmt::format("{:.2f} ms", ms);
}

}  // namespace cuflash::bench
