#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <random>

#include "harness/stage_check.h"
#include "stage_test.h"

namespace cuflash::tests {
namespace {

constexpr int kProblems = simt::kSimulated ? 20 : 1000;
constexpr int kLongest = simt::kSimulated ? 150 : 300;  // queries or keys
constexpr int kFailures = 3;                            // after so many the test ends

unsigned first_seed() {
  const char* text = std::getenv("CUFLASH_SEED");
  return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 1;
}

// Random choices, the same on every machine for a seed.
class Choices {
 public:
  explicit Choices(unsigned seed) : bits_(seed) {}

  int from(int first, int last) {
    return first + static_cast<int>(bits_() % static_cast<unsigned>(last - first + 1));
  }
  bool one_in(int n) { return from(1, n) == 1; }
  template <class List>
  auto of(const List& list) {
    return *std::next(std::begin(list), from(0, static_cast<int>(std::size(list)) - 1));
  }

 private:
  std::mt19937 bits_;
};

// One in four lengths is that of whole tiles, or one more or less.
int length(Choices& choices) {
  if (!choices.one_in(4)) return choices.from(1, kLongest);
  return 64 * choices.from(1, kLongest / 64) + choices.from(-1, 1);
}

harness::TestCase any_case(Choices& choices) {
  harness::TestCase c;
  Problem& p = c.problem;
  p.batch = choices.from(1, 3);
  p.heads_kv = choices.from(1, 4);
  p.heads_q = p.heads_kv * choices.from(1, 4 / p.heads_kv);
  p.seq_q = length(choices);
  p.seq_kv = choices.one_in(3) ? p.seq_q : length(choices);
  p.head_dim = choices.of(kHeadDims);
  p.dtype = choices.of(kDTypes);
  p.softmax_scale = choices.one_in(8) ? 0.3f : default_scale(p.head_dim);
  p.causal = choices.one_in(2);
  if (choices.one_in(3)) p.window_left = choices.from(0, p.seq_kv);
  if (!p.causal && choices.one_in(3)) p.window_right = choices.from(0, p.seq_kv);
  c.options.layout = choices.of(
      std::initializer_list<harness::Layout>{harness::Layout::kBHSD, harness::Layout::kBSHD,
                                             harness::Layout::kPadded, harness::Layout::kSpaced});
  return c;
}

}  // namespace

void computes_random_problems(const Stage& stage, Pass pass) {
  Choices choices(first_seed());
  int failures = 0;
  for (int n = 0; n < kProblems && failures < kFailures;) {
    const harness::TestCase c = any_case(choices);
    if (!takes(stage, pass, c.problem)) continue;  // another dtype
    CUFLASH_SKIP_UNSUPPORTED(stage, pass, c.problem);
    ++n;
    const harness::StageCheck check = check_stage(stage, pass, c, harness::Runs::kAll);
    if (check.ok()) continue;
    ++failures;
    ADD_FAILURE() << "Problem " << n << " of CUFLASH_SEED=" << first_seed() << ": "
                  << test_case_name(c) << '\n'
                  << check.failures();
  }
}

}  // namespace cuflash::tests
