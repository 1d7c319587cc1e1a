// Waits for other blocks: for those that have begun before, and for one that begins later.
#include "device/ptx/block_count.h"
#include "support.h"

namespace cuflash::simt {
namespace {

enum class Order { kRight, kOfIndices, kTooFew };

// The blocks wait for each other in the order in which they begin, and each writes after the one
// before it.
__global__ void in_turn(unsigned* counts, unsigned* last, Order order) {
  const unsigned began = atomicAdd(&counts[0], 1u);
  ptx::block_count_wait(&counts[1], order == Order::kOfIndices ? blockIdx.x : began);  // waits
  *last = began;
  if (order != Order::kTooFew || began != 1) ptx::block_count_add(&counts[1]);
}

class BlockCountTest : public SimulatorTest {
 protected:
  bool launched(Order order) {
    return launch(in_turn, {4, 1}, counts_.data(), last_.data(), order) ==
           FlashAttentionError::SUCCESS;
  }
  // The number of the last block to write.
  unsigned last() const { return last_.values()[0]; }

  Array<unsigned> counts_{2, 0u, "counts"}, last_{1, 99u, "last"};
};

TEST_F(BlockCountTest, WaitsForBlocksThatHaveBegun) {
  for (const auto order : {Schedule::Order::kInOrder, Schedule::Order::kReversed}) {
    set_schedule({order});
    counts_.set({0, 0});
    EXPECT_TRUE(launched(Order::kRight));
    EXPECT_EQ(last(), 3u);
  }
}

TEST_F(BlockCountTest, ReportsAWaitForALaterBlock) {
  set_schedule({Schedule::Order::kReversed});
  EXPECT_FALSE(launched(Order::kOfIndices));
  EXPECT_EQ(last(), 99u);
  const Finding finding = only_finding(FindingKind::kBlockOrder);
  expect_report(finding, "WAIT FOR A LATER BLOCK", "");
  EXPECT_NE(finding.text().find("// waits"), std::string::npos);
  EXPECT_NE(finding.text().find("waits until the count is 3; it is 0."), std::string::npos);
}

TEST_F(BlockCountTest, ReportsAWaitForACountThatABlockHasLeftOut) {
  EXPECT_FALSE(launched(Order::kTooFew));
  EXPECT_EQ(last(), 1u);
  const Finding finding = only_finding(FindingKind::kBlockOrder);
  EXPECT_NE(finding.text().find("waits until the count is 2; it is 1."), std::string::npos);
}

// A thread waits for a count that another one of its block adds to later.
__global__ void for_a_neighbour(unsigned* counts, unsigned* last) {
  if (threadIdx.x == 0) {
    ptx::block_count_wait(&counts[0], 1);
    *last += 1;
  } else {
    *last = 6;
    ptx::block_count_add(&counts[0]);
  }
}

// One lane waits for its warp, in vain.
__global__ void for_the_warp(unsigned* counts) {
  if (threadIdx.x == 0) ptx::block_count_wait(&counts[0], 1);
  __syncwarp();
}

TEST_F(BlockCountTest, ReportsAWaitOfOneLaneForItsWarp) {
  EXPECT_NE(launch(for_the_warp, {1, 32}, counts_.data()), FlashAttentionError::SUCCESS);
  expect_report(only_finding(FindingKind::kBlockOrder), "WAIT FOR A LATER BLOCK", "");
}

TEST_F(BlockCountTest, LetsItsOwnThreadsRun) {
  for (const auto order : {Schedule::Order::kInOrder, Schedule::Order::kReversed}) {
    set_schedule({order});
    counts_.set({0, 0});
    EXPECT_EQ(launch(for_a_neighbour, {1, 2}, counts_.data(), last_.data()),
              FlashAttentionError::SUCCESS);
    EXPECT_EQ(last(), 7u);
  }
}

}  // namespace
}  // namespace cuflash::simt
