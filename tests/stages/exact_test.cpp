#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "harness/stage_call.h"
#include "reference/round.h"
#include "stage_test.h"

namespace cuflash::tests {
namespace {

using harness::Inputs;

constexpr float kLn2 = 0.6931471805599453f;  // in floats, 1 / log2(e)

// Integers from -limit to limit.
std::vector<float> integers(std::size_t count, int limit, std::mt19937& bits) {
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<int>(bits() % (2u * limit + 1)) - limit;
  return values;
}

// The number of keys that query i of a causal problem, or of one without a mask, sees.
int visible(const Problem& p, int i) {
  return p.causal ? std::clamp(i + 1 + p.seq_kv - p.seq_q, 0, p.seq_kv) : p.seq_kv;
}

// The rows of one head.
std::vector<float> row_of(const std::vector<float>& rows, int row, int width) {
  return {rows.begin() + std::ptrdiff_t{row} * width,
          rows.begin() + (std::ptrdiff_t{row} + 1) * width};
}

}  // namespace

void finds_one_key(const Stage& stage, Pass pass, Problem problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  const int D = problem.head_dim;
  // Then softmax_scale · log2(e) is 1/4, and all exponents of 2 are integers: 1 is exactly 1.
  problem.softmax_scale = kLn2 / 4;
  std::mt19937 bits(1);
  Inputs in;
  in.k = in.v = integers(std::size_t(problem.seq_kv) * D, 100, bits);
  const auto round = reference::rounding(problem.dtype);
  for (float& x : in.v) x = round(x);  // It changes something only where a dtype has few bits.
  for (float& x : in.k) x = bits() % 2 == 0 ? 16.f : -16.f;
  std::vector<int> chosen;
  for (int i = 0; i < problem.seq_q; ++i) {
    chosen.push_back(static_cast<int>(bits() % visible(problem, i)));
    const std::vector<float> key = row_of(in.k, chosen.back(), D);
    in.q.insert(in.q.end(), key.begin(), key.end());
  }
  const harness::Outputs out = harness::run(stage, pass, problem, in);
  EXPECT_EQ(out.damage, "");
  for (int i = 0; i < problem.seq_q; ++i) {
    EXPECT_EQ(row_of(out.tensors.at("O"), i, D), row_of(in.v, chosen[i], D))
        << "query " << i << ", key " << chosen[i];
  }
}

void averages_equal_keys(const Stage& stage, Pass pass, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  const int D = problem.head_dim;
  std::mt19937 bits(2);
  Inputs in;
  in.q = std::vector<float>(std::size_t(problem.seq_q) * D);
  in.k = integers(std::size_t(problem.seq_kv) * D, 8, bits);
  in.v = integers(std::size_t(problem.seq_kv) * D, 8, bits);
  const harness::Outputs out = harness::run(stage, pass, problem, in);
  EXPECT_EQ(out.damage, "");
  const auto round = reference::rounding(problem.dtype);
  std::vector<double> sum(D);
  int keys = 0, compared = 0;
  for (int i = 0; i < problem.seq_q; ++i) {
    for (; keys < visible(problem, i); ++keys) {
      for (int d = 0; d < D; ++d) sum[d] += in.v[std::size_t(keys) * D + d];
    }
    if ((keys & (keys - 1)) != 0) continue;
    ++compared;
    std::vector<float> mean(D);
    for (int d = 0; d < D; ++d) mean[d] = round(static_cast<float>(sum[d] / keys));
    EXPECT_EQ(row_of(out.tensors.at("O"), i, D), mean) << "query " << i << ", " << keys << " keys";
  }
  EXPECT_GT(compared, 2);
}

}  // namespace cuflash::tests
