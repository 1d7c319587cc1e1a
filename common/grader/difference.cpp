#include "difference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace cuflash::exercises {
namespace {

std::string range(std::int64_t first, std::int64_t last) {
  return first == last ? std::to_string(first)
                       : std::to_string(first) + " to " + std::to_string(last);
}

bool is_vector(const std::string& array) {
  return array == "LSE" || array == "delta" || array == "s_lse" || array == "s_delta" ||
         array == "s_scale";
}

// Without the sign of a NaN or of 0, which says nothing.
std::string digits(double value, int count) {
  if (std::isnan(value)) return "NaN";
  char text[32];
  std::snprintf(text, sizeof(text), "%.*g", count, value == 0 ? 0 : value);
  return text;
}

}  // namespace

bool close(double a, double b, double scale) {
  if (!std::isfinite(a) || !std::isfinite(b)) {
    return a == b || (std::isnan(a) && std::isnan(b));
  }
  return std::abs(a - b) <= 4e-3 * std::max(std::abs(a), std::abs(b)) + 1e-4 * scale;
}

std::string number(double value) { return digits(value, 4); }

std::string instead_of(double got, double wanted) {
  int count = 4;
  while (count < 9 && digits(got, count) == digits(wanted, count)) ++count;
  return digits(got, count) + " instead of " + digits(wanted, count);
}

std::string in_words(const Event& event) {
  const Element& e = *event.element;
  const std::string& name = array_name(e.array);
  if (event.product != nullptr) {
    const std::string matrix = name.substr(name.find(' ') + 1);  // without "accumulator"
    const bool of_keys = matrix.find_first_of("KV") != std::string::npos,
               scores = matrix.find_first_of("SP") != std::string::npos;
    return name + (of_keys ? "[key " : "[query ") + std::to_string(e.row) +
           (scores ? "][key " : "][") + std::to_string(e.column) + ']';
  }
  const std::string row = name + '[' + std::to_string(e.row) + ']';
  // s_lse[2][64] is two vectors.
  const bool vector = e.column < 0 || (is_vector(name) && e.column == 0);
  return vector ? row : row + '[' + std::to_string(e.column) + ']';
}

// "sK[16 to 31][0 to 63]": the smallest box around some elements of one array.
std::string box(const std::vector<Element>& of) {
  std::int64_t first = of.front().row, last = first;
  int left = of.front().column, right = left;
  for (const Element& e : of) {
    first = std::min(first, e.row), last = std::max(last, e.row);
    left = std::min(left, e.column), right = std::max(right, e.column);
  }
  const std::string& name = array_name(of.front().array);
  const std::string rows = name + '[' + range(first, last) + ']';
  const bool vector = right < 0 || (is_vector(name) && right == 0);
  return vector ? rows : rows + '[' + range(left, right) + ']';
}

}  // namespace cuflash::exercises
