#include "memory_map.h"

#include <fmt/core.h>

#include "harness/trial.h"
#include "table.h"

namespace cuflash::bench {
namespace {

constexpr std::size_t kBarCells = 40;
constexpr const char* kArraysUnknown =
    "The arrays are not known: the kernels have no debug information that can be read (built "
    "without "
    "-g, stripped, or built by clang).\n";

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

// The whole memory of a block as a bar, the array's part of it dark.
std::string bar(const simt::SharedArray& array, std::size_t all) {
  const std::size_t first = array.offset * kBarCells / all;
  const std::size_t end = (array.offset + bytes_of(array)) * kBarCells / all;
  std::string text;
  for (std::size_t cell = 0; cell < kBarCells; ++cell) {
    text += cell == first || (cell > first && cell < end) ? "█" : "·";
  }
  return text;
}

void add_map(Table& table, const simt::SharedMap& map) {
  std::string kernel = harness::short_kernel_name(map.kernel);
  for (const simt::SharedArray& array : map.arrays) {
    table.add({kernel, array.name, extents(array), fmt::format("{} B", array.element_bytes),
               grouped(array.offset), grouped(bytes_of(array)), bar(array, map.bytes)});
    kernel.clear();
  }
  table.add({kernel, "", "", "", "total", grouped(map.bytes), ""});
}

}  // namespace

std::string memory_map_text(const std::vector<simt::SharedMap>& maps) {
  if (maps.empty()) return "No kernel asks for dynamic shared memory.\n";
  Table table({{"kernel", false},
               {"array", false},
               {"extents", false},
               {"element"},
               {"offset"},
               {"bytes"},
               {"in the block's shared memory", false}});
  bool arrays_known = true;
  for (const simt::SharedMap& map : maps) {
    add_map(table, map);
    arrays_known &= !map.arrays.empty();
  }
  return table.text() + (arrays_known ? "" : kArraysUnknown);
}

}  // namespace cuflash::bench
