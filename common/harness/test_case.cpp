#include "harness/test_case.h"

#include <charconv>
#include <cmath>
#include <iterator>

#include "cuflash/workload.h"

namespace cuflash::harness {
namespace {

// An option of a call that can be off: an output, or the fixed order of additions.
struct Wish {
  const char* suffix;
  bool CallOptions::*wanted;
};
constexpr Wish kWishes[] = {{"_no_lse", &CallOptions::lse},
                            {"_no_dq", &CallOptions::dq},
                            {"_no_dk", &CallOptions::dk},
                            {"_no_dv", &CallOptions::dv},
                            {"_any_order", &CallOptions::deterministic}};

std::string suffix(const char* name) { return std::string("_") + name; }

// Removes `end` from the end of `text`; false if `text` does not end with it.
bool take_end(std::string_view& text, std::string_view end) {
  if (text.size() < end.size() || text.substr(text.size() - end.size()) != end) return false;
  text.remove_suffix(end.size());
  return true;
}

constexpr std::string_view kScale = "_scale";

std::string scale_suffix(float scale) {
  char digits[32];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), scale);
  return std::string(kScale).append(digits, end.ptr);
}

// Removes "_scale0.1" from the end of `text` and reads its number; false if no positive number
// follows _scale. Removes nothing if there is no _scale.
bool take_scale(std::string_view& text, float& scale) {
  const auto at = text.rfind(kScale);
  if (at == text.npos) return true;
  const std::string_view digits = text.substr(at + kScale.size());
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, scale);
  text = text.substr(0, at);
  return read.ec == std::errc() && read.ptr == end && std::isfinite(scale) && scale > 0.f;
}

// Removes one of the names of a T's values from the end of `text`, if there is one.
template <class T, std::size_t kCount>
void take_any(std::string_view& text, const char* const (&names)[kCount], T& value) {
  for (std::size_t n = 0; n < kCount; ++n) {
    if (!take_end(text, suffix(names[n]))) continue;
    value = static_cast<T>(n);
    return;
  }
}

}  // namespace

std::string test_case_name(const TestCase& c) {
  std::string name = problem_name(c.problem);
  if (c.problem.softmax_scale != default_scale(c.problem.head_dim)) {
    name += scale_suffix(c.problem.softmax_scale);
  }
  if (c.source.kind != InputKind::kGaussian) name += suffix(input_name(c.source.kind));
  if (c.options.layout != Layout::kBHSD) name += suffix(layout_name(c.options.layout));
  for (const Wish& wish : kWishes) {
    if (!(c.options.*wish.wanted)) name += wish.suffix;
  }
  return name;
}

bool parse_test_case(std::string_view text, TestCase& c) {
  TestCase parsed = c;
  for (std::size_t n = std::size(kWishes); n-- > 0;) {
    if (take_end(text, kWishes[n].suffix)) parsed.options.*kWishes[n].wanted = false;
  }
  take_any(text, kLayoutNames, parsed.options.layout);
  take_any(text, kInputNames, parsed.source.kind);
  float scale = 0.f;
  if (!take_scale(text, scale) || !parse_problem(text, parsed.problem)) return false;
  if (scale != 0.f) parsed.problem.softmax_scale = scale;
  c = parsed;
  return true;
}

}  // namespace cuflash::harness
