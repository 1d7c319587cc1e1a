#include "table.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "terminal.h"

namespace cuflash::bench {
namespace {

constexpr const char* kGap = "  ";
constexpr std::size_t kGapWidth = 2;

std::string pad(const std::string& text, std::size_t width, bool right) {
  const std::size_t used = display_width(text);
  const std::string spaces(width > used ? width - used : 0, ' ');
  return right ? spaces + text : text + spaces;
}

// A cell's lines, broken at `limit` unless that is 0.
std::vector<std::string> lines_of(const std::string& cell, std::size_t limit) {
  if (limit == 0 || display_width(cell) <= limit) return {cell};
  return wrap(cell, limit);
}

std::string trim_right(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

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

std::string paragraph(const std::string& text) {
  const std::string no_break = "\u00a0";
  std::string lines;
  for (const std::string& line : wrap(text, terminal_width())) lines += line + '\n';
  for (std::size_t at; (at = lines.find(no_break)) != std::string::npos;) {
    lines.replace(at, no_break.size(), " ");
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

// The width of a column whose cells are broken into lines of `limit`.
std::size_t Table::widest(std::size_t index, std::size_t limit) const {
  std::size_t width = display_width(columns_[index].title);
  for (const Row& row : rows_) {
    if (row.sentence && index > 0) continue;
    for (const std::string& line : lines_of(row.cells[index], limit)) {
      width = std::max(width, display_width(line));
    }
  }
  return width;
}

std::size_t Table::width() const {
  std::size_t total = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    total += widest(i, columns_[i].wrap) + (i > 0 ? kGapWidth : 0);
  }
  return total;
}

// The columns that fit into `width`: shortened from the left, and fewer if that does not suffice.
std::vector<Table::Shown> Table::fitted(std::size_t width) const {
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    shown.push_back({i, columns_[i].wrap, widest(i, columns_[i].wrap)});
  }
  while (true) {
    std::size_t total = 0, possible = 0;
    for (const Shown& column : shown) {
      total += column.width + (column.index > 0 ? kGapWidth : 0);
      const std::size_t least = columns_[column.index].least;
      if (least > 0 && column.width > least) possible += column.width - least;
    }
    const auto spare =
        std::max_element(shown.begin(), shown.end(), [&](const Shown& a, const Shown& b) {
          return columns_[a.index].spare < columns_[b.index].spare;
        });
    if (total > width + possible && columns_[spare->index].spare > 0) {
      shown.erase(spare);
      continue;
    }
    for (Shown& column : shown) {
      const std::size_t least = columns_[column.index].least;
      if (total <= width || least == 0 || column.width <= least) continue;
      column.limit = std::max(least, column.width - std::min(column.width, total - width));
      total -= column.width;
      column.width = widest(column.index, column.limit);
      total += column.width;
    }
    return shown;
  }
}

// Lists the columns that are left out.
std::string Table::missing(const std::vector<Shown>& shown) const {
  std::string names;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const bool there = std::any_of(shown.begin(), shown.end(),
                                   [&](const Shown& column) { return column.index == i; });
    if (!there) names += (names.empty() ? "" : ", ") + columns_[i].title;
  }
  return names.empty() ? "" : paragraph("The terminal is too narrow for: " + names + ".");
}

std::string Table::text() const {
  const std::size_t width = terminal_width();
  const std::vector<Shown> shown = fitted(width);
  std::string out;
  // `lines_of_column(c)` are the lines of the cell in the column c.
  const auto print = [&](auto lines_of_column) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (const Shown& column : shown) {
      cells.push_back(lines_of_column(column));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t n = 0; n < height; ++n) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        line += (i ? kGap : "") + pad(n < cells[i].size() ? cells[i][n] : "", shown[i].width,
                                      columns_[shown[i].index].right);
      }
      out += trim_right(line);
    }
  };

  print([&](const Shown& column) { return lines_of(columns_[column.index].title, 0); });
  for (const Shown& column : shown) {
    for (std::size_t n = 0; n < column.width + (column.index > 0 ? kGapWidth : 0); ++n) out += "─";
  }
  out += '\n';
  for (const Row& row : rows_) {
    if (row.sentence) {
      const auto lines = wrap(row.cells[1], width - shown[0].width - kGapWidth);
      for (std::size_t n = 0; n < lines.size(); ++n) {
        out += trim_right(pad(n == 0 ? row.cells[0] : "", shown[0].width, false) + kGap + lines[n]);
      }
    } else {
      print([&](const Shown& column) { return lines_of(row.cells[column.index], column.limit); });
    }
  }
  return out + missing(shown);
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
