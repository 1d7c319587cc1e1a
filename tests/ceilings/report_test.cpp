// The table and the JSON of `ceilings`, with made-up figures: no GPU.
#include "ceilings/report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace cuflash::bench {
namespace {

std::vector<Figure> made_up() {
  auto figures = figures_of("exp2", {{{Unit::kExp2, 6.4e9}}, 2., 4e6}, 100);
  const auto both =
      figures_of("under", {{{Unit::kFlop, 1.6e12}, {Unit::kExp2, 3.2e9, "exp2"}}, 2., 4e6}, 100);
  figures.insert(figures.end(), both.begin(), both.end());
  figures.push_back(figures_of("copy", {{{Unit::kByte, 2e9}}, 0.5}, 100).front());
  Figure skipped;
  skipped.name = "vector";
  skipped.skipped = "not here";
  figures.push_back(skipped);
  add_shares(figures);
  return figures;
}

TEST(CeilingReport, Json) {
  Provenance provenance;
  provenance.device = "a GPU";
  const auto json = report(provenance, {90, 100, 4096, 1024}, made_up());
  EXPECT_EQ(json.at("provenance").at("device"), "a GPU");
  EXPECT_FALSE(json.at("provenance").at("timing").get<std::string>().empty());
  EXPECT_EQ(json.at("chip").at("sms"), 100);
  const auto& rows = json.at("rows");
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0].at("figure"), "exp2");
  EXPECT_EQ(rows[0].at("unit"), "T exp2/s");
  EXPECT_DOUBLE_EQ(rows[0].at("rate"), 3.2);
  EXPECT_DOUBLE_EQ(rows[0].at("per_clock_and_sm"), 16.);
  EXPECT_FALSE(rows[0].contains("share"));
  EXPECT_EQ(rows[2].at("whole"), "exp2");
  EXPECT_DOUBLE_EQ(rows[2].at("share"), 0.5);
  EXPECT_EQ(rows[3].at("unit"), "TB/s");
  EXPECT_FALSE(rows[3].contains("per_clock_and_sm"));
  EXPECT_EQ(rows[4].at("skipped"), "not here");
  EXPECT_FALSE(rows[4].contains("rate"));
}

TEST(CeilingReport, Table) {
  setenv("COLUMNS", "150", 1);
  const std::string text = table_text(made_up());
  for (const char* cell :
       {"3.20 T exp2/s", "800 TFLOP/s", "4.00 TB/s", "50 % of exp2", "skipped: not here"}) {
    EXPECT_NE(text.find(cell), std::string::npos) << cell << '\n' << text;
  }
  // The second figure of a loop does not repeat its name.
  EXPECT_EQ(text.find("under"), text.rfind("under")) << text;
}

}  // namespace
}  // namespace cuflash::bench
