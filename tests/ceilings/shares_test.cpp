// How much of its ceiling a stage reaches, by hand, and the ladder's table of it: no GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cuflash/workload.h"
#include "ladder/stage_table.h"
#include "table.h"

namespace cuflash::bench {
namespace {

Problem problem_of(const char* name) {
  Problem p;
  EXPECT_TRUE(parse_problem(name, p)) << name;
  return p;
}

const PassFacts& facts_of(const char* stage, Pass pass) { return find_stage(stage)->facts(pass); }

// 2 · 10 · 100 · 32 multiply-adds of each of 3 heads, 384,000 FLOPs, in 1 ns: 384 TFLOP/s.
TEST(CeilingShares, CountTheProductsOfAForwardPass) {
  const Problem p = problem_of("b1_h3_q10k100_d32_f16");
  EXPECT_DOUBLE_EQ(products_tflops(facts_of("01", CUFLASH_FORWARD), p, 1e-6), 384.);
  EXPECT_DOUBLE_EQ(products_tflops(facts_of("09", CUFLASH_FORWARD), p, 1e-6), 384.);
}

// 01 and 09 compute each of the five products once, except 09 with head_dim 256, which computes S
// twice. 03, 04 and 06 compute S and dP twice.
TEST(CeilingShares, CountTwiceWhatABackwardPassComputesTwice) {
  const Problem p = problem_of("b1_h3_q10k100_d32_f16"),
                wide = problem_of("b1_h3_q10k100_d256_f16");
  for (const char* five : {"01", "09"}) {
    EXPECT_DOUBLE_EQ(products_tflops(facts_of(five, CUFLASH_BACKWARD), p, 1e-6), 2.5 * 384.);
  }
  EXPECT_DOUBLE_EQ(products_tflops(facts_of("09", CUFLASH_BACKWARD), wide, 1e-6), 3. * 8 * 384.);
  for (const char* seven : {"03", "04", "06"}) {
    EXPECT_DOUBLE_EQ(products_tflops(facts_of(seven, CUFLASH_BACKWARD), p, 1e-6), 3.5 * 384.);
  }
}

TEST(CeilingShares, CountHalfWhereCausal) {
  const Problem p = problem_of("b1_h3_q10k100_d32_f16_causal");
  EXPECT_DOUBLE_EQ(products_tflops(facts_of("04", CUFLASH_FORWARD), p, 1e-6), 192.);
}

TEST(CeilingShares, OfTheLoopThatComputesAsTheStageDoes) {
  const PassFacts &plain = facts_of("04", CUFLASH_BACKWARD), &mma = facts_of("06", CUFLASH_FORWARD);
  EXPECT_EQ(ceiling_of(plain, CUFLASH_F32), "ffma");
  EXPECT_EQ(ceiling_of(plain, CUFLASH_F16), "ffma");
  EXPECT_EQ(ceiling_of(mma, CUFLASH_F16), "mma_f16");
  EXPECT_EQ(ceiling_of(mma, CUFLASH_BF16), "mma_bf16");
  const PassFacts& wgmma = facts_of("11", CUFLASH_FORWARD);
  EXPECT_EQ(ceiling_of(wgmma, CUFLASH_F16), "wgmma_f16");
  EXPECT_EQ(ceiling_of(wgmma, CUFLASH_BF16), "wgmma_bf16");
}

// Two stages' times on one problem: of the second there is no ceiling.
struct TimedRows {
  Plan plan;
  std::vector<Row> rows;
};
TimedRows timed() {
  TimedRows made;
  made.plan.verified.problem = problem_of("b1_h3_q10k100_d32_f16");
  made.plan.timed = made.plan.verified.problem;
  for (const char* name : {"04", "05"}) {
    Row row;
    row.stage = find_stage(name);
    row.ok = true;
    row.ms = 1.;
    made.rows.push_back(row);
  }
  made.rows[0].of_ceiling = {"ffma", 50., 0.614};
  return made;
}

TEST(LadderTable, ShowsTheShare) {
  setenv("COLUMNS", "150", 1);
  const auto [plan, rows] = timed();
  const std::string text = table_text(rows, plan);
  EXPECT_NE(text.find("share of ceiling\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  61 % ffma\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  -\n"), std::string::npos) << text;
}

// The share is left out of a narrow table before the speeds are.
TEST(LadderTable, FitsTheTerminal) {
  const auto [plan, rows] = timed();
  for (const char* columns : {"120", "80", "60"}) {
    setenv("COLUMNS", columns, 1);
    std::istringstream lines(table_text(rows, plan) + limits_text(rows));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(display_width(line), std::stoul(columns)) << line;
    }
  }
  EXPECT_NE(table_text(rows, plan).find("too narrow for"), std::string::npos);
}

TEST(LadderTable, SaysOnceWhatLimitsAStage) {
  setenv("COLUMNS", "150", 1);
  auto [plan, rows] = timed();
  rows.push_back(rows[0]);
  rows.back().pass = CUFLASH_BACKWARD;
  rows[1].ms.reset();
  const std::string text = limits_text(rows), limit = rows[0].stage->limiter;
  EXPECT_NE(text.find(limit), std::string::npos) << text;
  EXPECT_EQ(text.find(limit), text.rfind(limit)) << text;
  EXPECT_EQ(text.find("05_wmma"), std::string::npos) << text;
  EXPECT_EQ(limits_text({rows[1]}), "");
}

TEST(LadderJson, HasTheShareOfATimedRow) {
  const auto [plan, rows] = timed();
  const std::string path = testing::TempDir() + "ladder_shares.json";
  write_json(path, {}, rows, plan);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(text.str().find("\n{\"stage\":\"05_wmma\""), std::string::npos) << "a row has a line";
  const auto json = nlohmann::json::parse(text.str()).at("rows");
  ASSERT_EQ(json.size(), 2u);  // The verified problem is the timed one: of each stage a row.
  EXPECT_EQ(json[0].at("ok"), true);
  EXPECT_EQ(json[0].at("ceiling"), "ffma");
  EXPECT_EQ(json[0].at("ceiling_tflops"), 50.);
  EXPECT_EQ(json[0].at("ceiling_share"), 0.614);
  EXPECT_FALSE(json[1].contains("ceiling"));
}

}  // namespace
}  // namespace cuflash::bench
