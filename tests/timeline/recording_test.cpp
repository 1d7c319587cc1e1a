// What becomes of the events of a timeline's log, without a GPU.
#include "timeline/recording.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "timeline/made_up.h"

namespace cuflash::bench {
namespace {

using timeline::Event;
using timeline::Kind;

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

TEST(TimelineBlocks, Clock) {
  EXPECT_DOUBLE_EQ(
      clock_ghz({block(1, 0, 900, 0xfffffff0u), block(2, 500, 800), block(3, 1500, 1600, 984)}),
      1.5);
  EXPECT_THROW(clock_ghz({block(1, 0, 900)}), std::runtime_error);
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

}  // namespace
}  // namespace cuflash::bench
