// What becomes of the events of a timeline's log, and their JSON, without a GPU.
#include "timeline/recording.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "timeline/report.h"

namespace cuflash::bench {
namespace {

using timeline::Event;
using timeline::Kind;

// As a kernel writes it.
Event event(Kind kind, unsigned line, unsigned warp, unsigned block, unsigned begin, unsigned end,
            unsigned data = 0) {
  using namespace timeline;
  const unsigned who = block % (1u << kBlockBits) << kWarpBits | warp;
  return {(who << kKindBits | static_cast<unsigned>(kind)) << kLineBits | line, begin, end, data};
}

TEST(TimelineBlocks, InOrderWithTheirWarps) {
  const auto blocks = blocks_of({event(Kind::kWait, 7, 5, 130, 400, 500, 64),
                                 event(Kind::kTile, 8, 4, 130, 200, 200, unsigned(-1)),
                                 event(Kind::kBlock, 9, 0, 130, 5000, 100, 130)});
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].number, 130u);
  EXPECT_EQ(blocks[0].begin, 0);
  EXPECT_EQ(blocks[0].end, 400);
  EXPECT_EQ(blocks[0].nanoseconds, 5000u);
  ASSERT_EQ(blocks[0].warps.size(), 2u);
  const Span& wait = blocks[0].warps.at(5).at(0);
  EXPECT_EQ(wait.kind, Kind::kWait);
  EXPECT_EQ(wait.line, 7);
  EXPECT_EQ(wait.begin, 300);
  EXPECT_EQ(wait.end, 400);
  EXPECT_EQ(wait.data, 64u);
  EXPECT_EQ(blocks[0].warps.at(4).at(0).line, 8);
}

// The events of blocks whose short numbers are equal go to the one that has begun last.
TEST(TimelineBlocks, OneAfterTheOther) {
  const auto blocks = blocks_of(
      {event(Kind::kBlock, 9, 0, 3, 0, 100, 3), event(Kind::kFence, 10, 4, 3, 150, 150),
       event(Kind::kBlock, 9, 0, 131, 0, 200, 131), event(Kind::kFence, 11, 4, 131, 250, 250)});
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].warps.at(4).at(0).line, 10);
  EXPECT_EQ(blocks[1].warps.at(4).at(0).line, 11);
}

TEST(TimelineBlocks, AClockThatBeginsAnew) {
  const auto blocks = blocks_of({event(Kind::kBlock, 9, 0, 1, 0, 0xfffffff0u, 1),
                                 event(Kind::kWait, 10, 0, 1, 0xfffffffau, 20)});
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].warps.at(0).at(0).begin, 10);
  EXPECT_EQ(blocks[0].warps.at(0).at(0).end, 36);
}

TEST(TimelineBlocks, WhatCannotBeTold) {
  EXPECT_TRUE(blocks_of({}).empty());
  EXPECT_THROW(blocks_of({event(Kind::kWait, 7, 0, 1, 0, 10)}), std::runtime_error);
  EXPECT_THROW(blocks_of({event(Kind::kBlock, 7, 0, 1, 0, 10, 1),
                          event(Kind::kBlock, 7, 0, 2, 0, 10 + timeline::kRingCycles, 2)}),
               std::runtime_error);
}

RecordedBlock block(unsigned number, std::int64_t begin, std::int64_t end, unsigned ns = 0) {
  return {number, begin, end, ns, {}};
}

Span last_tile(std::int64_t end, unsigned ns = 0) { return {Kind::kLastTile, 20, end, end, ns}; }

TEST(TimelineBlocks, Clock) {
  RecordedBlock early = block(1, 0, 900, 0xfffffff0u), late = block(2, 500, 1600);
  EXPECT_THROW(clock_ghz({early}), std::runtime_error);
  early.warps[4] = {last_tile(800, 1)};
  late.warps = {{4, {last_tile(1500, 984)}}, {8, {last_tile(1400, 900)}}};
  EXPECT_DOUBLE_EQ(clock_ghz({early, late}), 1.5);
}

TEST(TimelineBlocks, InTheMiddle) {
  const auto chosen = in_the_middle({block(1, 0, 100), block(2, 5, 105), block(3, 100, 200),
                                     block(4, 105, 205), block(5, 200, 300), block(6, 205, 305)});
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[0].number, 3u);
  EXPECT_EQ(chosen[1].number, 4u);
  EXPECT_TRUE(in_the_middle({}).empty());
}

// A block that begins when another is half done runs beside it for half of its time, no more.
TEST(TimelineBlocks, InTheMiddleOfBlocksThatTakeTurns) {
  const auto chosen =
      in_the_middle({block(1, 0, 100), block(2, 50, 150), block(3, 100, 200), block(4, 150, 250)});
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[0].number, 3u);
  EXPECT_EQ(chosen[1].number, 4u);
}

TEST(TimelineBlocks, InTheMiddleOfABlockThatStays) {
  RecordedBlock all = block(1, 0, 900);
  all.warps[0] = {{Kind::kRequest, 5, 90, 110, 0}, {Kind::kRequest, 6, 400, 420, 0}};
  all.warps[4] = {last_tile(100),
                  {Kind::kWait, 7, 100, 130, 0},
                  last_tile(300),
                  last_tile(500),
                  last_tile(800)};
  all.warps[8] = {last_tile(120), last_tile(320), {Kind::kWait, 8, 490, 510, 0}, last_tile(520)};
  const auto chosen = in_the_middle({all});
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].begin, 300);
  EXPECT_EQ(chosen[0].end, 500);
  const auto lines_and_ends = [&](int warp) {
    std::vector<std::pair<int, std::int64_t>> found;
    for (const Span& span : chosen[0].warps.at(warp)) found.emplace_back(span.line, span.end);
    return found;
  };
  using Expected = std::vector<std::pair<int, std::int64_t>>;
  EXPECT_EQ(lines_and_ends(0), (Expected{{6, 420}}));
  EXPECT_EQ(lines_and_ends(4), (Expected{{20, 300}, {20, 500}}));
  EXPECT_EQ(lines_and_ends(8), (Expected{{20, 320}}));
  // A block with one tile of queries is shown whole.
  all.warps = {{4, {{Kind::kWait, 7, 10, 30, 0}, last_tile(800)}}};
  EXPECT_EQ(in_the_middle({all})[0].begin, 0);
  EXPECT_EQ(in_the_middle({all})[0].warps.at(4).size(), 2u);
}

TEST(TimelineReport, Events) {
  Timeline recorded;
  // The block's fifth warp is the first of warpgroup 1.
  recorded.blocks = blocks_of({event(Kind::kBlock, 1, 0, 7, 0, 1000, 7),
                               event(Kind::kTile, 3, 4, 7, 1010, 1010, unsigned(-1)),
                               event(Kind::kWait, 4, 4, 7, 1020, 1050, 1024),
                               event(Kind::kWait, 4, 5, 7, 1020, 1051, 1024)});
  const auto json = report({}, "12_stage", {recorded});
  EXPECT_EQ(json.at("stage"), "12_stage");
  const auto& block = json.at("timelines").at(0).at("blocks").at(0);
  EXPECT_EQ(block.at("block"), 7);
  ASSERT_EQ(block.at("warpgroups").size(), 1u) << "of each warpgroup its first warp";
  EXPECT_EQ(block.at("warpgroups").at(0).at("warpgroup"), 1);
  EXPECT_EQ(block.at("warpgroups").at(0).at("events"),
            nlohmann::ordered_json({"3 tile 10 10 -1", "4 wait 20 50 1024"}));
}

}  // namespace
}  // namespace cuflash::bench
