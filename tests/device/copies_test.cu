// cp.async: what is copied, and when it arrives.
#include "device/ptx/cp_async.h"
#include "support.h"

namespace cuflash {
namespace {

constexpr int kThreads = 64;

class Copies : public DeviceTest {};

std::vector<unsigned short> numbers(int count) {
  std::vector<unsigned short> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<unsigned short>(i));
  return values;
}

// Two groups; the first is used while the second is under way. Chunks from `valid` on are zeros.
__global__ void copy_in_groups(const uint4* from, int valid, uint4* out) {
  __shared__ uint4 first[kThreads], second[kThreads];
  const int thread = threadIdx.x, neighbour = (thread + 37) % kThreads;
  ptx::cp_async_16(&first[thread], &from[thread], thread < valid);
  ptx::cp_async_commit();
  ptx::cp_async_16(&second[thread], &from[kThreads + thread], kThreads + thread < valid);
  ptx::cp_async_commit();
  ptx::cp_async_wait<1>();
  __syncthreads();
  out[neighbour] = first[neighbour];
  ptx::cp_async_wait<0>();
  __syncthreads();
  out[kThreads + neighbour] = second[neighbour];
}

TEST_F(Copies, InGroups) {
  constexpr int kElements = 2 * kThreads * 8;
  const Array<unsigned short> from(numbers(kElements));
  for (const int valid : {0, 1, 40, kThreads, 100, 2 * kThreads}) {
    const Array<unsigned short> out(std::vector<unsigned short>(kElements, 7));
    run(copy_in_groups, {1, kThreads}, reinterpret_cast<const uint4*>(from.data()), valid,
        reinterpret_cast<uint4*>(out.data()));
    auto expected = numbers(kElements);
    for (int i = valid * 8; i < kElements; ++i) expected[i] = 0;
    ASSERT_EQ(out.values(), expected) << valid;
  }
}

// Nothing is read where a copy is not valid: the address may be any.
__global__ void copy_nothing(uint4* out) {
  __shared__ uint4 tile[kThreads];
  ptx::cp_async_16(&tile[threadIdx.x], nullptr, false);
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  out[threadIdx.x] = tile[threadIdx.x];
}

TEST_F(Copies, OfNothing) {
  const Array<unsigned> out(std::vector<unsigned>(kThreads * 4, 7));
  run(copy_nothing, {1, kThreads}, reinterpret_cast<uint4*>(out.data()));
  EXPECT_EQ(out.values(), std::vector<unsigned>(kThreads * 4));
}

}  // namespace
}  // namespace cuflash
