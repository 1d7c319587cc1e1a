#include "harness/npy.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace cuflash::harness {
namespace {

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (1, 12), }.
// Returns the text between a key's colon and the first of the characters `end` after it.
std::string field(const std::string& header, const std::string& key, const char* end) {
  const std::size_t at = header.find("'" + key + "': ");
  if (at == std::string::npos) return "";
  const std::size_t first = at + key.size() + 4;
  return header.substr(first, header.find_first_of(end, first) - first);
}

// Reads "(1, 12, 272, 32".
std::vector<std::int64_t> parse_shape(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '(' || c == ','; }, ' ');
  std::istringstream numbers(text);
  std::vector<std::int64_t> shape;
  for (std::int64_t extent; numbers >> extent;) shape.push_back(extent);
  return shape;
}

}  // namespace

NpyArray read_npy(const std::string& path) {
  const auto fail = [&](const std::string& reason) {
    return std::runtime_error(path + ": " + reason);
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) throw fail("cannot be opened");

  // Magic string, version, length of the header: 2 bytes in version 1, 4 bytes after it.
  unsigned char start[12] = {};
  file.read(reinterpret_cast<char*>(start), 10);
  if (!file || std::string(start, start + 6) != "\x93NUMPY") throw fail("is not a .npy file");
  std::size_t length = start[8] + 256u * start[9];
  if (start[6] > 1) {
    file.read(reinterpret_cast<char*>(start) + 10, 2);
    length += (std::size_t{start[10]} << 16) + (std::size_t{start[11]} << 24);
  }
  if (!file || length > (1u << 20)) throw fail("has a damaged header");
  std::string header(length, ' ');
  file.read(header.data(), static_cast<std::streamsize>(length));
  if (!file) throw fail("ends inside its header");

  const std::string type = field(header, "descr", ",}");
  if (type != "'<f4'") throw fail("holds " + type + ", not float32 ('<f4')");
  if (field(header, "fortran_order", ",}") != "False") throw fail("is not in C order");

  NpyArray array;
  array.shape = parse_shape(field(header, "shape", ")"));
  std::size_t count = 1;
  for (const std::int64_t extent : array.shape) {
    count *= static_cast<std::size_t>(extent);
    if (count > (std::size_t{1} << 32)) throw fail("is too large");
  }
  array.data.resize(count);
  const auto bytes = static_cast<std::streamsize>(count * sizeof(float));
  file.read(reinterpret_cast<char*>(array.data.data()), bytes);
  if (file.gcount() != bytes) throw fail("ends before its last element");
  return array;
}

}  // namespace cuflash::harness
