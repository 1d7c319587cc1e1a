// bar.sync, bar.arrive and bar.red: what warps write before a named barrier, the others at it read
// after it.
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

// Two groups take turns, each adding to what the other has left. Barrier 1 + g gives group g its
// turn; group 0 gives itself the first.
__global__ void take_turns(int* values) {
  __shared__ int s[kGroup];
  const int group = threadIdx.x / kGroup, t = threadIdx.x % kGroup;
  if (group == 0) {
    s[t] = values[t];
    ptx::named_barrier_arrive(1, 2 * kGroup);
  }
  for (int round = 0; round < kRounds; ++round) {
    ptx::named_barrier_sync(1 + group, 2 * kGroup);
    s[(t + round) % kGroup] = 3 * s[(t + round) % kGroup] % 10007 + t + group;
    ptx::named_barrier_arrive(2 - group, 2 * kGroup);
  }
  if (group == 1) ptx::named_barrier_sync(3, kGroup);
  if (group == 1) values[t] = s[t];
}

TEST_F(NamedBarriers, GiveTurnsByArrivals) {
  std::vector<int> values, expected;
  for (int i = 0; i < kGroup; ++i) values.push_back(5 * i);
  expected = values;
  for (int round = 0; round < kRounds; ++round) {
    for (int group = 0; group < 2; ++group) {
      for (int t = 0; t < kGroup; ++t) {
        int& x = expected[(t + round) % kGroup];
        x = 3 * x % 10007 + t + group;
      }
    }
  }
  const Array<int> device(values);
  run(take_turns, {1, 2 * kGroup}, device.data());
  EXPECT_EQ(device.values(), expected);
}

}  // namespace
}  // namespace cuflash
