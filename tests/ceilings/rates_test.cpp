// From time to rate, by hand: no GPU.
#include "ceilings/rates.h"

#include <gtest/gtest.h>

namespace cuflash::bench {
namespace {

TEST(CeilingRates, OfALoopOnTheSms) {
  // 100 SMs, 2 ms, 4 million clocks each: 2 GHz. 1.6e12 FLOPs: 800 TFLOP/s.
  const auto figures =
      figures_of("x", {{{Unit::kFlop, 1.6e12}, {Unit::kExp2, 6.4e9}}, 2., 4e6}, 100);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].name, "x");
  EXPECT_EQ(figures[0].unit, Unit::kFlop);
  EXPECT_DOUBLE_EQ(figures[0].tera, 800.);
  EXPECT_DOUBLE_EQ(figures[0].per_clock_and_sm, 4000.);
  EXPECT_DOUBLE_EQ(figures[0].per_ns_and_sm, 8000.);
  EXPECT_DOUBLE_EQ(figures[0].clock_ghz, 2.);
  EXPECT_EQ(figures[1].unit, Unit::kExp2);
  EXPECT_DOUBLE_EQ(figures[1].tera, 3.2);
  EXPECT_DOUBLE_EQ(figures[1].per_clock_and_sm, 16.);
}

TEST(CeilingRates, OfALoopInMemory) {
  const auto figures = figures_of("copy", {{{Unit::kByte, 2e9}}, 0.5}, 100);
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_DOUBLE_EQ(figures[0].tera, 4.);
  EXPECT_EQ(figures[0].per_clock_and_sm, 0.);
  EXPECT_EQ(figures[0].clock_ghz, 0.);
}

TEST(CeilingRates, NoTimeIsNoRate) {
  EXPECT_THROW(figures_of("x", {{{Unit::kFlop, 1.}}, 0., 1.}, 1), std::runtime_error);
  EXPECT_THROW(figures_of("x", {{{Unit::kFlop, 1.}}, -1., 1.}, 1), std::runtime_error);
}

TEST(CeilingRates, ShareOfTheFigureOfThatNameAndUnit) {
  auto figures =
      figures_of("both", {{{Unit::kFlop, 3e9, "alone"}, {Unit::kExp2, 1e9, "alone"}}, 1.}, 1);
  const auto alone = figures_of("alone", {{{Unit::kExp2, 4e9}, {Unit::kFlop, 6e9}}, 1.}, 1);
  figures.insert(figures.end(), alone.begin(), alone.end());
  add_shares(figures);
  EXPECT_DOUBLE_EQ(figures[0].share, 0.5);
  EXPECT_DOUBLE_EQ(figures[1].share, 0.25);
  EXPECT_EQ(figures[2].share, 0.);
}

TEST(CeilingRates, NoShareOfASkippedFigure) {
  auto figures = figures_of("under", {{{Unit::kFlop, 3e9, "alone"}}, 1.}, 1);
  Figure skipped;
  skipped.name = "alone";
  skipped.skipped = "it needs another GPU";
  figures.push_back(skipped);
  add_shares(figures);
  EXPECT_EQ(figures[0].share, 0.);
}

TEST(CeilingRates, SizesOfTargets) {
  constexpr std::size_t kMiB = 1 << 20;
  for (const auto& [l2, within] :
       {std::pair{50, 16}, {60, 16}, {48, 16}, {47, 8}, {40, 8}, {4, 1}}) {
    const TargetBytes bytes = target_bytes(l2 * kMiB);
    EXPECT_EQ(bytes.within_l2, within * kMiB) << l2;
    EXPECT_EQ(bytes.beyond_l2, 8 * within * kMiB) << l2;
    EXPECT_GT(bytes.beyond_l2, l2 * kMiB) << l2;
  }
}

}  // namespace
}  // namespace cuflash::bench
