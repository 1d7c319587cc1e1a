// What queue() does if one of its grids cannot be launched.
#include "device/host/grid.h"
#include "support.h"

namespace cuflash {
namespace {

class Grids : public DeviceTest {};

__global__ void set(int* mark, std::int64_t) { *mark = 1; }

// A grid of so many threads that sets `mark`.
auto grid_of(std::int64_t threads, int threads_of_block, const Array<int>& mark) {
  return one_thread_per(threads, threads_of_block, set, mark.data());
}

TEST_F(Grids, AreAllRefusedIfOneHasTooManyBlocks) {
  const Array<int> marks({0});
  const auto small = grid_of(1, 1, marks), large = grid_of(kMaxBlocks + 1, 1, marks);
  EXPECT_EQ(queue(nullptr, small, large), FlashAttentionError::SIZE_OVERFLOW);
  EXPECT_EQ(queue(nullptr, large, small), FlashAttentionError::SIZE_OVERFLOW);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(marks.values(), std::vector<int>({0}));
}

TEST_F(Grids, AreNotQueuedAfterOneThatFails) {
  const Array<int> before({0}), after({0});
  const auto first = grid_of(1, 1, before), too_many_threads = grid_of(1, 4096, before),
             last = grid_of(1, 1, after);
  EXPECT_EQ(queue(nullptr, first, too_many_threads, last), FlashAttentionError::CUDA_ERROR);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  cudaGetLastError();     // What is left of the refused launch is expected,
  simt::take_findings();  // on either backend.
  EXPECT_EQ(before.values(), std::vector<int>({1}));
  EXPECT_EQ(after.values(), std::vector<int>({0}));
}

}  // namespace
}  // namespace cuflash
