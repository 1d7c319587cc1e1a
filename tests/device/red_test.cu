// red_add and add_from: where the elements of each lane lie in memory.
#include <numeric>

#include "device/ptx/red.h"
#include "support.h"

namespace cuflash {
namespace {

constexpr int kElements = 4, kAccumulator = 32 * kElements, kWarps = 3;

class Red : public DeviceTest {
 protected:
  // The place of a lane's element in memory. A request has 16 bytes of each lane from compute
  // capability 9.0 on and on the CPU simulator, else 4.
  static int place(int lane, int e) {
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    return simt::kSimulated || major >= 9 ? kElements * lane + e : 32 * e + lane;
  }
};

// What a warp adds: integers, so that every order of the additions gives the same sum.
__host__ __device__ float number(int warp, int lane, int e) {
  return static_cast<float>(1000 * warp + kElements * lane + e);
}
__global__ void add_numbers(float* accumulator) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float x[kElements];
  for (int e = 0; e < kElements; ++e) x[e] = number(warp, lane, e);
  ptx::red_add(accumulator, lane, x);
}

TEST_F(Red, AddsEachElementAtItsPlace) {
  const Array<float> memory(std::vector<float>(3 * kAccumulator, 0.5f));
  run(add_numbers, {1, 32 * kWarps}, memory.data() + kAccumulator);
  std::vector<float> expected(3 * kAccumulator, 0.5f);  // Nothing before it or after it changes.
  for (int lane = 0; lane < 32; ++lane) {
    for (int e = 0; e < kElements; ++e) {
      float& sum = expected[kAccumulator + place(lane, e)];
      for (int warp = 0; warp < kWarps; ++warp) sum += number(warp, lane, e);
    }
  }
  EXPECT_EQ(memory.values(), expected);
  if (simt::counts_accesses()) {  // one request a warp, 512 bytes of 32 to a sector
    EXPECT_EQ(simt::counts().global_write_requests, std::uint64_t{kWarps});
    EXPECT_EQ(simt::counts().global_write_sectors, 16u * kWarps);
  }
}

__global__ void add_memory(const float* accumulator, float* out) {
  const int lane = threadIdx.x;
  float x[kElements];
  for (int e = 0; e < kElements; ++e) x[e] = number(1, lane, e);
  ptx::add_from(accumulator, lane, x);
  for (int e = 0; e < kElements; ++e) out[kElements * lane + e] = x[e];
}

TEST_F(Red, AddsFromTheSamePlace) {
  std::vector<float> numbers(kAccumulator);
  std::iota(numbers.begin(), numbers.end(), 0.f);
  const Array<float> memory(numbers), out(std::vector<float>(kAccumulator, 0.5f));
  run(add_memory, {1, 32}, memory.data(), out.data());
  std::vector<float> expected;
  for (int lane = 0; lane < 32; ++lane) {
    for (int e = 0; e < kElements; ++e) {
      expected.push_back(number(1, lane, e) + static_cast<float>(place(lane, e)));
    }
  }
  EXPECT_EQ(out.values(), expected);
}

}  // namespace
}  // namespace cuflash
