#include "harness/case.h"

#include <iterator>

namespace cuflash::harness {
namespace {

constexpr InputKind kInputs[] = {InputKind::kGaussian, InputKind::kPeaky,    InputKind::kAllEqual,
                                 InputKind::kLargeQ,   InputKind::kOneHotDO, InputKind::kReal};
constexpr Layout kLayouts[] = {Layout::kBHSD, Layout::kBSHD, Layout::kPadded, Layout::kFar};

// The outputs that a call may leave out.
struct Output {
  const char* suffix;
  bool CallOptions::*wanted;
};
constexpr Output kOutputs[] = {{"_no_lse", &CallOptions::lse},
                               {"_no_dq", &CallOptions::dq},
                               {"_no_dk", &CallOptions::dk},
                               {"_no_dv", &CallOptions::dv}};

std::string suffix(InputKind kind) { return std::string("_") + input_name(kind); }
std::string suffix(Layout layout) { return std::string("_") + layout_name(layout); }

// Takes `end` off the end of `text`; false, and nothing taken, where it does not stand there.
bool take_end(std::string_view& text, std::string_view end) {
  if (text.size() < end.size() || text.substr(text.size() - end.size()) != end) return false;
  text.remove_suffix(end.size());
  return true;
}

// Takes the name of one of `values` off the end of `text`, if one stands there.
template <class T, std::size_t kCount>
void take_any(std::string_view& text, const T (&values)[kCount], T& value) {
  for (const T candidate : values) {
    if (!take_end(text, suffix(candidate))) continue;
    value = candidate;
    return;
  }
}

}  // namespace

std::string case_name(const Case& c) {
  std::string name = problem_name(c.problem);
  if (c.source.kind != InputKind::kGaussian) name += suffix(c.source.kind);
  if (c.options.layout != Layout::kBHSD) name += suffix(c.options.layout);
  for (const Output& output : kOutputs) {
    if (!(c.options.*output.wanted)) name += output.suffix;
  }
  return name;
}

bool parse_case(std::string_view text, Case& c) {
  Case parsed = c;
  for (std::size_t n = std::size(kOutputs); n-- > 0;) {
    if (take_end(text, kOutputs[n].suffix)) parsed.options.*kOutputs[n].wanted = false;
  }
  take_any(text, kLayouts, parsed.options.layout);
  take_any(text, kInputs, parsed.source.kind);
  if (!parse_problem(text, parsed.problem)) return false;
  c = parsed;
  return true;
}

}  // namespace cuflash::harness
