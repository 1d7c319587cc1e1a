// device/dq_sum.h: what is added to the sum of dQ, and where.
#include "../support.h"
#include "device/dq_sum.h"
#include "device/ptx/tensor_copy.h"

namespace cuflash {
namespace {

class DqWorkspaces : public DeviceTest {
 protected:
  DqWorkspaces() : DeviceTest(9) {}
};

constexpr int kFloats = 64;

struct Terms {
  alignas(16) float terms[kFloats];
};

__global__ void add_to_share(DqWorkspace work, std::int64_t share) {
  auto& s = shared_storage<Terms>();
  s.terms[threadIdx.x] = static_cast<float>(threadIdx.x);
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) add_to_dq(work, share, s.terms);
}

// The first shares do not exist: dQ begins where the one that does has its place after them.
TEST_F(DqWorkspaces, HoldMoreThan32BitsCount) {
  const std::int64_t share = (std::int64_t{1} << 32) / kFloats + 3;
  const Array<float> sums(std::vector<float>(kFloats, 1.f));
  DqWorkspace work = {};
  work.dq = reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(sums.data()) -
                                     share * kFloats * sizeof(float));
  run(add_to_share, {1, kFloats, shared_layout<Terms>()}, work, share);
  std::vector<float> expected;
  for (int i = 0; i < kFloats; ++i) expected.push_back(1.f + static_cast<float>(i));
  EXPECT_EQ(sums.values(), expected);
}

}  // namespace
}  // namespace cuflash
