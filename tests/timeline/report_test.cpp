// The JSON of `timeline`, with made-up events: no GPU.
#include "timeline/report.h"

#include <gtest/gtest.h>

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

TEST(TimelineReport, Events) {
  Timeline recorded;
  recorded.blocks = made_up();
  const auto json = report({}, "12_stage", 32, {recorded});
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

}  // namespace
}  // namespace cuflash::bench
