#include "ladder/memory_map.h"

#include <fmt/core.h>

#include <algorithm>

#include "harness/stage_check.h"
#include "table.h"
#include "terminal.h"

namespace cuflash::bench {
namespace {

constexpr std::size_t kBarCells = 40, kFewestBarCells = 10;
constexpr const char* kArraysUnknown =
    "The arrays are unknown: the kernels have no debug information that can be read (built "
    "without -g, stripped, or built by clang).\n";

// Groups of three digits: 12,672.
std::string grouped(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string extents(const simt::SharedArray& array) {
  std::string text;
  for (const int extent : array.extents) text += fmt::format("[{}]", extent);
  return text;
}

std::size_t bytes_of(const simt::SharedArray& array) {
  std::size_t bytes = array.element_bytes;
  for (const int extent : array.extents) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

// The block's shared memory as a bar, with the array's part dark.
std::string bar(const simt::SharedArray& array, std::size_t all, std::size_t cells) {
  const std::size_t first = array.offset * cells / all;
  const std::size_t end = (array.offset + bytes_of(array)) * cells / all;
  std::string text;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    text += cell == first || (cell > first && cell < end) ? "█" : "·";
  }
  return text;
}

void add_map(Table& table, const simt::SharedMap& map, std::size_t bar_cells) {
  std::string kernel = harness::short_kernel_name(map.kernel);
  for (const simt::SharedArray& array : map.arrays) {
    table.add({kernel, array.name, extents(array), fmt::format("{} B", array.element_bytes),
               grouped(array.offset), grouped(bytes_of(array)), bar(array, map.bytes, bar_cells)});
    kernel.clear();
  }
  table.add({kernel, "", "", "", "total", grouped(map.bytes), ""});
}

Table table_of(const std::vector<simt::SharedMap>& maps, std::size_t bar_cells) {
  const bool narrow = bar_cells < kBarCells;
  Table table({{"kernel", false},
               {"array", false},
               {"extents", false},
               {"element", true, 0, 0, 1},
               {"offset"},
               {"bytes"},
               {narrow ? "in memory" : "in the block's shared memory", false, 0, 0, 2}});
  for (const simt::SharedMap& map : maps) add_map(table, map, bar_cells);
  return table;
}

}  // namespace

std::string memory_map_text(const std::vector<simt::SharedMap>& maps) {
  if (maps.empty()) return "No kernel uses dynamic shared memory.\n";
  const auto unknown = [](const simt::SharedMap& map) { return map.arrays.empty(); };
  const bool arrays_known = std::none_of(maps.begin(), maps.end(), unknown);
  const std::string note = arrays_known ? "" : kArraysUnknown;
  const Table table = table_of(maps, kBarCells);
  const std::size_t width = table.width(), allowed = terminal_width();
  if (width <= allowed) return table.text() + note;
  const std::size_t over = width - allowed;
  return table_of(maps, kBarCells - std::min(over, kBarCells - kFewestBarCells)).text() + note;
}

}  // namespace cuflash::bench
