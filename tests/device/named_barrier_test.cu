// bar.sync: what warps write before a named barrier, the others at it read after it.
#include "device/ptx/named_barrier.h"
#include "support.h"

namespace cuflash {
namespace {

class NamedBarriers : public DeviceTest {};

constexpr int kGroup = 96, kGroups = 3, kRounds = 20;

// Each group of three warps turns its values round at a barrier of its own, time and again.
__global__ void turn(int* values) {
  __shared__ int s[2][kGroups][kGroup];
  const int group = threadIdx.x / kGroup, t = threadIdx.x % kGroup;
  int value = values[threadIdx.x];
  for (int round = 0; round < kRounds; ++round) {
    s[round % 2][group][t] = value;
    ptx::named_barrier_sync(1 + group, kGroup);
    value = s[round % 2][group][(t + 1 + group) % kGroup];
  }
  values[threadIdx.x] = value;
}

TEST_F(NamedBarriers, OrderSomeWarps) {
  std::vector<int> values, expected;
  for (int i = 0; i < kGroup * kGroups; ++i) {
    const int group = i / kGroup;
    values.push_back(i);
    expected.push_back(group * kGroup + (i % kGroup + kRounds * (1 + group)) % kGroup);
  }
  const Array<int> device(values);
  run(turn, {1, kGroup * kGroups}, device.data());
  EXPECT_EQ(device.values(), expected);
}

}  // namespace
}  // namespace cuflash
