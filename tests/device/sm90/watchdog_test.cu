// The watchdog ends a kernel whose thread waits for a phase that never ends, and says where.
#include "../support.h"
#include "device/ptx/mbarrier.h"

namespace cuflash {
namespace {

class Watchdog : public DeviceTest {
 protected:
  Watchdog() : DeviceTest(9) {}
};

// All threads wait for a phase that needs `arrivals` of them. Thread 0 does not arrive.
__global__ void meet(unsigned arrivals) {
  __shared__ std::uint64_t barriers[2];
  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : barriers) ptx::mbarrier_init(&barrier, arrivals);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x != 0) ptx::mbarrier_arrive(&barriers[1]);
  ptx::mbarrier_wait(&barriers[1], 0);
}

TEST_F(Watchdog, LetsKernelsEnd) {
  run(meet, {2, 64}, 63u);
  EXPECT_EQ(watchdog::report(), "");
}

// In a process of its own, which can run no kernel afterwards.
TEST_F(Watchdog, EndsAKernelThatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [] {
    if (launch(meet, {1, 64}, 64u) != FlashAttentionError::SUCCESS) std::exit(2);
    std::exit(cudaDeviceSynchronize() == cudaSuccess ? 1 : 0);
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(0),
              "block \\(0,0,0\\), thread [0-9]+ waited too long for the phase of parity 0(.|\n)*"
              "  0x[0-9a-f]+  [0-9a-f]+  the barrier\n");
}

}  // namespace
}  // namespace cuflash
