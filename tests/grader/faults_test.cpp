// What is said of a fault that the simulator found, and of the problems in which it was found.
#include "faults.h"

#include <gtest/gtest.h>

#include "cuflash/workload.h"

namespace cuflash::exercises {
namespace {

Sample sample_of(const char* problem) {
  Sample s;
  EXPECT_TRUE(parse_problem(problem, s.problem));
  s.walk = {64, 32, false};
  s.check.runs.emplace_back();
  return s;
}

harness::Fault fault(simt::FindingKind kind, const std::string& title, const std::string& text) {
  return {{kind, title, "kernel", "", "K", "kernel.cuh:9", text}, {}, ""};
}

// What is said where the only sample has this finding.
Diagnosis said_of(simt::FindingKind kind, const std::string& title, const std::string& text) {
  Sample s = sample_of("b1_h1_q64k64_d64");
  s.check.faults.push_back(fault(kind, title, text));
  const auto found = faults({s});
  return found.size() == 1 ? found.front() : Diagnosis{};
}

void expect_words(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(FaultsTest, OutOfBoundsAtEitherEnd) {
  const std::string access = "   read   warp 0 lane 0   kernel.cuh:9   x = gK(j, d);   KV tile 0\n";
  const auto said = [&](const char* where) {
    return said_of(simt::FindingKind::kOutOfBounds, "OUT OF BOUNDS", access + where).message;
  };
  expect_words(said("  It reaches 4 bytes past the end of an allocation of 8 bytes."),
               "the last tile are rarely full.");
  expect_words(said("  It reaches 4 bytes before the start of an allocation of 8 bytes."),
               "It lies before the first element: an index is negative");
}

TEST(FaultsTest, ABarrierThatAWarpSkips) {
  const auto said = [](const char* tile) {
    return said_of(simt::FindingKind::kSharedRace, "RACE in shared memory",
                   std::string("   write  warp 0 lane 0   kernel.cuh:9   s = x;   KV tile 0\n"
                               "   read   warp 1 lane 0   kernel.cuh:12   y = s;   KV tile ") +
                       tile + '\n')
        .message;
  };
  expect_words(said("0"), "no __syncthreads() orders the write at kernel.cuh:9, `s = x;` before");
  EXPECT_EQ(said("0").find("skips"), std::string::npos);
  expect_words(said("1"), "A warp that skips a barrier in one round");
}

TEST(FaultsTest, AParityThatIsNone) {
  const Diagnosis said =
      said_of(simt::FindingKind::kMbarrier, "MBARRIER OUT OF RANGE",
              "   atomic  warp 0 lane 0   kernel.cuh:9   mbarrier_wait(&full, n);   KV tile 2\n");
  EXPECT_EQ(said.id, "mbarrier-range");
  expect_words(said.message, "The parity of a wait is 0 or 1");
}

TEST(FaultsTest, OfABarrierOfCopiesOnlyTheFirst) {
  Sample s = sample_of("b1_h1_q64k64_d64");
  for (const char* title : {"WAIT A FULL PHASE LATE", "TOO MANY ARRIVALS"}) {
    s.check.faults.push_back(fault(simt::FindingKind::kMbarrier, title, ""));
  }
  const auto found = faults({s});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().id, "mbarrier-parity");
  expect_words(found.front().message, "may follow from it: 1 more.");
}

TEST(FaultsTest, WhatMostRightProblemsHaveTellsNothing) {
  std::vector<Sample> samples = {sample_of("b1_h1_q64k64_d64")};
  for (int n = 0; n < 6; ++n) samples.push_back(sample_of("b1_h1_q64k77_d64"));
  Sample& wrong = samples.back();
  const auto is_wrong = [&](const Sample& s) { return &s == &wrong; };
  EXPECT_EQ(where_bad(samples, is_wrong), "in 1 of 7 problems");
  wrong = sample_of("b1_h1_q64k77_d64_causal");
  EXPECT_EQ(where_bad(samples, is_wrong),
            "in 1 of 7 problems, those with a causal mask and seq_q != seq_kv");
}

}  // namespace
}  // namespace cuflash::exercises
