// The ladder's --compare with made-up times, beside those in docs/results: no GPU.
#include "ladder/compare.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "cuflash/workload.h"

namespace cuflash::bench {
namespace {

Plan plan_of(const char* name) {
  Plan plan;
  EXPECT_TRUE(parse_problem(name, plan.verified.problem)) << name;
  plan.timed = plan.verified.problem;
  return plan;
}

Row timed(const char* stage, double ms) {
  Row row;
  row.stage = find_stage(stage);
  row.ms = ms;
  return row;
}

std::string here() { return std::string("here, ") + current_device().name; }

class Compare : public testing::Test {
 protected:
  void SetUp() override { setenv("COLUMNS", "150", 1); }
  const Plan committed_ = plan_of("b4_h32_q4096k4096_d64_f16"),
             other_ = plan_of("b1_h1_q128k128_d64_f16");
};

TEST_F(Compare, TwoStagesHereAndAsCommitted) {
  const std::string text = comparison_text(timed("13", 3.), timed("14", 1.), committed_);
  const auto own = text.find("time " + here()), recorded = text.find("time, NVIDIA H200 ");
  EXPECT_NE(own, std::string::npos) << text;
  EXPECT_NE(text.find("3.00 × faster", own), std::string::npos) << text;
  EXPECT_NE(recorded, std::string::npos) << text;
  EXPECT_LT(own, recorded);
  EXPECT_NE(text.find("Time on NVIDIA H200: b4_h32_q4096k4096_d64_f16, commit "),
            std::string::npos);
}

TEST_F(Compare, AStageWithItselfAsCommitted) {
  const Row slow = timed("14", 1e6);
  const std::string text = comparison_text(slow, slow, committed_);
  EXPECT_NE(text.find(" committed  " + here()), std::string::npos) << text;
  EXPECT_NE(text.find("time, NVIDIA H200 "), std::string::npos) << text;
  EXPECT_NE(text.find(" × slower"), std::string::npos) << text;
  EXPECT_EQ(comparison_text(slow, slow, other_),
            "No docs/results/*/ladder.json has this problem.\n");
}

}  // namespace
}  // namespace cuflash::bench
