// The options, the table and the JSON of `ceilings`, with made-up figures: no GPU.
#include "ceilings/report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ceilings/options.h"

namespace cuflash::bench {
namespace {

namespace fs = std::filesystem;

std::vector<Figure> made_up() {
  auto figures = figures_of("exp2", {{{Unit::kExp2, 6.4e9}}, 2., 4e6}, 100);
  const auto both =
      figures_of("under", {{{Unit::kFlop, 1.6e12}, {Unit::kExp2, 3.2e9, "exp2"}}, 2., 4e6}, 100);
  figures.insert(figures.end(), both.begin(), both.end());
  auto copy = figures_of("copy", {{{Unit::kByte, 2e9}}, 0.5}, 100);
  copy[0].beside = "another copy";
  copy[0].recorded = Recorded{3.5, "some/file.json"};
  figures.push_back(copy[0]);
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
  EXPECT_EQ(rows[3].at("beside").at("file"), "some/file.json");
  EXPECT_EQ(rows[4].at("skipped"), "not here");
  EXPECT_FALSE(rows[4].contains("rate"));
}

TEST(CeilingReport, Table) {
  setenv("COLUMNS", "150", 1);
  const std::string text = table_text(made_up());
  for (const char* cell : {"3.20 T exp2/s", "800 TFLOP/s", "4.00 TB/s", "50 % of exp2",
                           "another copy: 3.50", "skipped: not here"}) {
    EXPECT_NE(text.find(cell), std::string::npos) << cell << '\n' << text;
  }
  // The second figure of a loop does not repeat its name.
  EXPECT_EQ(text.find("under"), text.rfind("under")) << text;
}

TEST(CeilingReport, RecordedOnAGpuOfThatName) {
  const fs::path results = fs::path(testing::TempDir()) / "ceilings_results";
  fs::create_directories(results / "one");
  fs::create_directories(results / "without");
  std::ofstream(results / "one/peers.json")
      << R"({"provenance": {"device": "a GPU"}, "ceilings": {"copy_tbs": 3.5}})";
  const auto found = recorded(results.string(), "a GPU", "copy_tbs");
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->tera, 3.5);
  EXPECT_FALSE(recorded(results.string(), "another GPU", "copy_tbs"));
  EXPECT_FALSE(recorded(results.string(), "a GPU", ""));
  EXPECT_FALSE(recorded((results / "missing").string(), "a GPU", "copy_tbs"));
  EXPECT_THROW(recorded(results.string(), "a GPU", "misspelt"), std::runtime_error);
  fs::remove_all(results);
}

// What the command line is taken for, or the sentence that refuses it.
CeilingOptions parsed(std::vector<std::string> arguments) {
  CLI::App app;
  CeilingOptions options;
  declare(app, options);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  app.parse(arguments);
  return options;
}

TEST(CeilingOptions, Taken) {
  EXPECT_FALSE(parsed({}).list);
  EXPECT_TRUE(parsed({"--list"}).list);
  EXPECT_EQ(parsed({"--json", "x.json"}).json, "x.json");
  EXPECT_EQ(parsed({"--json=" + testing::TempDir() + "/x.json"}).json,
            testing::TempDir() + "/x.json");
}

TEST(CeilingOptions, Refused) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--json"},
                                             {"--json", "no/such/folder/x.json"},
                                             {"--list", "--json", "x.json"},
                                             {"--list=no"},
                                             {"--lst"},
                                             {"stray"}}) {
    EXPECT_THROW(parsed(wrong), CLI::ParseError) << wrong.front();
  }
}

}  // namespace
}  // namespace cuflash::bench
