// The JSON of `timeline`, with made-up events: no GPU.
#include "timeline/report.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "timeline/made_up.h"

namespace cuflash::bench {
namespace {

using timeline::Kind;

// A block whose fifth warp is the first of warpgroup 1.
std::vector<RecordedBlock> made_up() {
  return blocks_of({event(Kind::kBlock, 1, 0, 7, 0, 1000, 7),
                    event(Kind::kTile, 3, 4, 7, 1010, 1010, unsigned(-1)),
                    event(Kind::kWait, 4, 4, 7, 1020, 1050, 1024),
                    event(Kind::kWait, 4, 5, 7, 1020, 1051, 1024)});
}

const std::vector<std::string> kKernel = {"// Take a tile.", "", "  mark_tile(\"KV\", tile);",
                                          "  wait(&k_full);  // K has arrived."};

nlohmann::ordered_json made_up_report(Timeline recorded = {}) {
  recorded.problem = "b1";
  recorded.blocks = made_up();
  return report({}, "12_stage", 32, kKernel, {recorded});
}

TEST(TimelineReport, Events) {
  const auto json = made_up_report();
  EXPECT_EQ(json.at("stage"), "12_stage");
  EXPECT_EQ(json.at("globaltimer_step_ns"), 32);
  const auto& block = json.at("timelines").at(0).at("blocks").at(0);
  EXPECT_EQ(block.at("block"), 7);
  EXPECT_EQ(block.at("end"), 51);
  ASSERT_EQ(block.at("warpgroups").size(), 1u) << "of each warpgroup its first warp";
  EXPECT_EQ(block.at("warpgroups").at(0).at("warpgroup"), 1);
  EXPECT_EQ(block.at("warpgroups").at(0).at("events"),
            nlohmann::ordered_json({"3 tile 10 10 -1", "4 wait 20 50 1024"}));
}

TEST(TimelineReport, LinesOfTheKernel) {
  const auto json = made_up_report();
  EXPECT_EQ(json.at("lines").size(), 2u);
  EXPECT_EQ(json.at("lines").at("4").at("code"), "wait(&k_full);  // K has arrived.");
  EXPECT_EQ(json.at("lines").at("4").at("title"), "// Take a tile.");
}

TEST(TimelineReport, TimeOfTheOrdinaryBuild) {
  EXPECT_FALSE(made_up_report().at("timelines").at(0).contains("plain_ms"));
  const std::string file = testing::TempDir() + "timeline_ladder.json";
  std::ofstream(file) << R"({"rows": [
    {"stage": "12_stage", "pass": "forward", "problem": "b1", "ok": true},
    {"stage": "12_stage", "pass": "backward", "problem": "b1", "ms": 3.0},
    {"stage": "12_stage", "pass": "forward", "problem": "b2", "ms": 4.0},
    {"stage": "12_stage", "pass": "forward", "problem": "b1", "ms": 1.5}]})";
  Timeline recorded;
  recorded.plain_ms = ladder_ms({file}, "12_stage", CUFLASH_FORWARD, "b1");
  EXPECT_EQ(made_up_report(recorded).at("timelines").at(0).at("plain_ms"), 1.5);
  EXPECT_EQ(ladder_ms({file}, "12_stage", CUFLASH_BACKWARD, "b1"), 3.);
  EXPECT_FALSE(ladder_ms({file}, "12_stage", CUFLASH_FORWARD, "b3"));
  EXPECT_FALSE(ladder_ms({}, "12_stage", CUFLASH_FORWARD, "b1"));
  std::remove(file.c_str());
}

}  // namespace
}  // namespace cuflash::bench
