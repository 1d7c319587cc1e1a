// ld.acquire and red.release: blocks that wait for others, in the order in which they began.
#include "device/ptx/block_count.h"
#include "support.h"

namespace cuflash {
namespace {

class BlockCounts : public DeviceTest {};

constexpr int kBlocks = 300, kThreads = 64;

// Each block, from the second to begin on, waits for the one before it, and changes what that has
// left. `counts` are the blocks that have begun and those that have ended.
__global__ void one_after_the_other(unsigned* counts, unsigned* values) {
  __shared__ unsigned number;
  const unsigned t = threadIdx.x;
  if (t == 0) {
    number = atomicAdd(&counts[0], 1u);
    ptx::block_count_wait(&counts[1], number);
  }
  __syncthreads();
  values[t] = values[t] * 3 + number * t;
  __syncthreads();
  if (t == 0) ptx::block_count_add(&counts[1]);
}

TEST_F(BlockCounts, PassOnWhatBlocksHaveWritten) {
  std::vector<unsigned> expected(kThreads, 1);
  for (unsigned block = 0; block < kBlocks; ++block) {
    for (unsigned t = 0; t < kThreads; ++t) expected[t] = expected[t] * 3 + block * t;
  }
  const Array<unsigned> counts(std::vector<unsigned>(2)),
      values(std::vector<unsigned>(kThreads, 1));
  run(one_after_the_other, {kBlocks, kThreads}, counts.data(), values.data());
  EXPECT_EQ(values.values(), expected);
}

}  // namespace
}  // namespace cuflash
