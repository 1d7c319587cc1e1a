// The ratio of times that were measured in turns, and its interval: no GPU.
#include "ratio.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

namespace cuflash::bench {
namespace {

// Times in the order A B B A, each about 1 ms, B's times `factor`.
std::vector<double> times_of(int turns, double factor, double noise = 0.) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> times;
  for (int n = 0; n < 4 * turns; ++n) {
    const bool b = n % 4 == 1 || n % 4 == 2;
    times.push_back((b ? factor : 1.) * (1. + noise * normal(random)));
  }
  return times;
}

TEST(Ruler, EqualTimes) {
  const Ratio ratio = ratio_of(times_of(100, 1.));
  EXPECT_EQ(ratio.value, 1.);
  EXPECT_EQ(ratio.spread, 0.);
}

TEST(Ruler, BIsSlower) {
  const Ratio ratio = ratio_of(times_of(100, 1.25));
  EXPECT_EQ(ratio.value, 1.25);
  EXPECT_EQ(ratio.spread, 0.);
  EXPECT_EQ(ratio.a, 1.);
  EXPECT_EQ(ratio.b, 1.25);
}

TEST(Ruler, OnePercentAboveTheNoise) {
  const Ratio ratio = ratio_of(times_of(100, 1.01, 0.005));
  EXPECT_NEAR(ratio.value, 1.01, 2 * ratio.spread);
  EXPECT_GT(ratio.value - 2 * ratio.spread, 1.);
}

TEST(Ruler, OutliersDoNotMoveIt) {
  auto times = times_of(100, 1.02);
  for (std::size_t n = 0; n < times.size(); n += 20) times[n] *= 50.;  // 5 %, all of them A's
  const Ratio ratio = ratio_of(times);
  EXPECT_DOUBLE_EQ(ratio.value, 1.02);
  EXPECT_DOUBLE_EQ(ratio.a, 1.);
}

TEST(Ruler, WhoComesFirstInAPairCancels) {
  auto times = times_of(100, 1.02);
  for (std::size_t n = 0; n < times.size(); n += 2) times[n] += 0.1;
  const Ratio ratio = ratio_of(times);
  EXPECT_DOUBLE_EQ(ratio.value, (2.04 + 0.1) / 2.1);
  EXPECT_EQ(ratio.spread, 0.);
}

TEST(Ruler, DriftCancels) {
  auto times = times_of(100, 1.);
  for (std::size_t n = 0; n < times.size(); ++n) times[n] += 0.01 * n;
  const Ratio ratio = ratio_of(times);
  EXPECT_NEAR(ratio.value, 1., 1e-12);
  EXPECT_NEAR(ratio.spread, 0., 1e-12);
}

TEST(Ruler, MedianAndInterval) {
  // P(at most 1 head of 9 coins) = 10 / 512 = 2.0 %, and at most 2 heads 9.0 %: one is left out.
  const Median odd = median_of({9, 1, 8, 2, 7, 3, 6, 4, 5});
  EXPECT_EQ(odd.value, 5.);
  EXPECT_EQ(odd.spread, 3.);  // 2 to 8
  const Median even = median_of({1, 2, 3, 4, 5, 7});
  EXPECT_EQ(even.value, 3.5);
  EXPECT_EQ(even.spread, 3.);  // 1 to 7: P(no head of 6 coins) = 1.6 %
}

TEST(Ruler, TheIntervalHoldsTheMedianIn95Of100Series) {
  // Skewed, with a median of 1.
  std::mt19937 random(7);
  std::lognormal_distribution<double> skewed(0., 1.);
  constexpr int kSeries = 4000, kValues = 100;
  int held = 0;
  for (int n = 0; n < kSeries; ++n) {
    std::vector<double> values(kValues);
    for (double& value : values) value = skewed(random);
    const double spread = median_of(values).spread;
    std::sort(values.begin(), values.end());
    // The 40th and the 61st of 100.
    EXPECT_DOUBLE_EQ(spread, (values[60] - values[39]) / 2);
    held += values[39] <= 1. && 1. <= values[60];
  }
  EXPECT_GE(held, 0.95 * kSeries);  // 96.5 % are expected; 95 % are five standard deviations below
  EXPECT_LE(held, 0.98 * kSeries);
}

TEST(Ruler, OnePercentAndTwiceTheSpread) {
  EXPECT_FALSE(is_slower(1.009, 0.));
  EXPECT_TRUE(is_slower(1.011, 0.005));
  EXPECT_FALSE(is_slower(1.011, 0.006));
  EXPECT_TRUE(is_slower(1.2, 0.09));
  EXPECT_FALSE(is_slower(0.8, 0.001));
}

TEST(Ruler, TooFewValues) {
  EXPECT_THROW(median_of({}), std::logic_error);
  EXPECT_THROW(median_of({1, 2, 3, 4, 5}), std::logic_error);
  EXPECT_THROW(ratio_of({1, 2, 2}), std::logic_error);
}

}  // namespace
}  // namespace cuflash::bench
