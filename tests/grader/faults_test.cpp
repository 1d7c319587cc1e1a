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

simt::FindingAccess access(simt::AccessKind kind, int warp, const char* tile) {
  return {kind, {}, {}, warp, 0, "kernel.cuh:9", "s = x;", tile};
}

// What is said where the only sample has these findings.
Diagnosis said_of(const std::vector<simt::Finding>& findings) {
  Sample s = sample_of("b1_h1_q64k64_d64");
  for (const simt::Finding& finding : findings) s.check.faults.push_back({finding, {}, ""});
  const auto found = faults({s});
  if (found.size() != 1) return {};
  Diagnosis said = found.front();
  said.message += said.causes;
  return said;
}

simt::Finding finding(simt::Report report, const std::vector<simt::FindingAccess>& accesses) {
  return {report, "kernel", {}, "K", "kernel.cuh:9", "", 0, accesses};
}

void expect_words(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(FaultsTest, OutOfBoundsAtEitherEnd) {
  simt::Finding stray =
      finding(simt::Report::kOutOfBounds, {access(simt::AccessKind::kRead, 0, "KV tile 0")});
  stray.offset = 12;
  expect_words(said_of({stray}).message, "the last tile are rarely full.");
  stray.offset = -4;
  expect_words(said_of({stray}).message, "It lies before the first element: an index is negative");
}

TEST(FaultsTest, ABarrierThatAWarpSkips) {
  const auto said = [](const char* tile) {
    return said_of({finding(simt::Report::kSharedRace,
                            {access(simt::AccessKind::kWrite, 0, "KV tile 0"),
                             access(simt::AccessKind::kRead, 1, tile)})})
        .message;
  };
  expect_words(said("KV tile 0"),
               "no __syncthreads() orders the write at kernel.cuh:9, `s = x;` before");
  EXPECT_EQ(said("KV tile 0").find("skips"), std::string::npos);
  expect_words(said("KV tile 1"), "A warp that skips a barrier in one round");
}

TEST(FaultsTest, ARaceOfWarpsWithRoles) {
  Sample s = sample_of("b1_h1_q64k64_d64");
  s.own.barrier_calls = 1;
  s.check.faults = {{finding(simt::Report::kSharedRace, {access(simt::AccessKind::kWrite, 4, ""),
                                                         access(simt::AccessKind::kRead, 4, "")}),
                     {},
                     ""}};
  expect_words(faults({s}).front().message,
               "no barrier orders the write at kernel.cuh:9, `s = x;`");
}

TEST(FaultsTest, ADeadlockTellsWhatTheBarriersHaveHad) {
  simt::Finding deadlock = finding(simt::Report::kMbarrierDeadlock, {});
  deadlock.barriers = {{"k_full[0]", 2, 1, 1, 0, 4096}, {"k_empty[1]", 0, 3, 4, 0, 0}};
  expect_words(said_of({deadlock}).message,
               "k_full[0] has had 1 of 1 arrival and 0 of 4096 bytes in phase 2, k_empty[1] 3 of 4 "
               "arrivals in phase 0.");
  deadlock.why =
      "  Warp 4 waits   at barrier 2: 128 of 256 threads\n  Warp 5 waits   at barrier 2: 128 "
      "of 256 threads\n";
  expect_words(said_of({deadlock}).message,
               "in phase 0, the named barrier 2: 128 of 256 threads. An arrival");
}

TEST(FaultsTest, AnArrivalBelongsBehindTheWaitForAProduct) {
  simt::FindingAccess read = access(simt::AccessKind::kRead, 0, "KV tile 0");
  read.of_product = true;
  const auto write = access(simt::AccessKind::kWrite, 4, "KV tile 0");
  expect_words(said_of({finding(simt::Report::kSharedRace, {read, write})}).message,
               "belongs behind that wait.");
}

TEST(FaultsTest, AStoreInFlightIsNoAsyncCopy) {
  const auto write = access(simt::AccessKind::kWrite, 1, ""),
             read = access(simt::AccessKind::kRead, 4, "");
  expect_words(said_of({finding(simt::Report::kWriteOverStore, {write, write})}).message,
               "a tile is stored once.");
  expect_words(said_of({finding(simt::Report::kReadOfStore, {write, read})}).message,
               "behind the tensor_store_wait() that covers its group.");
}

TEST(FaultsTest, OnlyTheFirst) {
  const simt::FindingAccess read = access(simt::AccessKind::kRead, 0, "KV tile 0");
  const Diagnosis said = said_of(
      {finding(simt::Report::kUninitialised, {read}), finding(simt::Report::kOutOfBounds, {read})});
  EXPECT_EQ(said.id, "out-of-bounds");
  expect_words(said.message, ". 1 more may follow from it.");
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
