// cp.reduce.async.bulk: what it adds, and when its source may be written again. Terms are small
// integers, so that every sum is exact.
#include "../support.h"
#include "device/ptx/bulk_reduce.h"
#include "device/ptx/tensor_copy.h"

namespace cuflash {
namespace {

class BulkReductions : public DeviceTest {
 protected:
  BulkReductions() : DeviceTest(9) {}
};

constexpr int kThreads = 64, kFloats = 1024, kTiles = 40;

struct TwoBuffers {
  alignas(16) float terms[2][kFloats];
};

// The value of a term of a block's tile.
__host__ __device__ float term(int block, int tile, int element) {
  return static_cast<float>((5 * block + 3 * tile + element) % 64);
}

// Two buffers: one is filled while the other is added. All blocks add to the same tiles, each
// beginning at another one.
__global__ void add_tiles(float* sums) {
  auto& s = shared_storage<TwoBuffers>();
  const int block = blockIdx.x;
  for (int n = 0; n < kTiles; ++n) {
    const int tile = (n + block) % kTiles;
    if (threadIdx.x == 0) ptx::tensor_store_wait_read<1>();
    __syncthreads();
    for (int i = threadIdx.x; i < kFloats; i += kThreads) {
      s.terms[n % 2][i] = term(block, tile, i);
    }
    ptx::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x != 0) continue;
    ptx::bulk_reduce_add(sums + tile * kFloats, s.terms[n % 2], sizeof s.terms[0]);
    ptx::tensor_store_commit();
  }
  if (threadIdx.x == 0) ptx::tensor_store_wait_read<0>();
}

TEST_F(BulkReductions, OfManyBlocks) {
  constexpr int kBlocks = 100;
  const Array<float> sums(std::vector<float>(kTiles * kFloats, 1.0f));
  run(add_tiles, {kBlocks, kThreads, shared_layout<TwoBuffers>()}, sums.data());
  std::vector<float> expected;
  for (int i = 0; i < kTiles * kFloats; ++i) {
    float sum = 1.0f;
    for (int block = 0; block < kBlocks; ++block) sum += term(block, i / kFloats, i % kFloats);
    expected.push_back(sum);
  }
  EXPECT_EQ(sums.values(), expected);
}

// Adds some of the terms, and reads the sums.
__global__ void add_some(float* sums, float* out, int first, int floats) {
  auto& s = shared_storage<TwoBuffers>();
  for (int i = threadIdx.x; i < kFloats; i += kThreads) s.terms[0][i] = static_cast<float>(i);
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::bulk_reduce_add(sums, s.terms[0] + first, floats * static_cast<int>(sizeof(float)));
    ptx::tensor_store_commit();
    ptx::tensor_store_wait<0>();
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kFloats; i += kThreads) out[i] = sums[i];
}

TEST_F(BulkReductions, OfSomeFloats) {
  for (const int floats : {4, 12, 1000}) {
    constexpr int kFirst = 8;
    const Array<float> sums(std::vector<float>(kFloats, 2.0f));
    const Array<float> out(std::vector<float>(kFloats, 0.0f));
    run(add_some, {1, kThreads, shared_layout<TwoBuffers>()}, sums.data(), out.data(), kFirst,
        floats);
    std::vector<float> expected;
    for (int i = 0; i < kFloats; ++i) {
      expected.push_back(i < floats ? static_cast<float>(2 + kFirst + i) : 2.0f);
    }
    EXPECT_EQ(out.values(), expected);
    EXPECT_EQ(sums.values(), expected);
  }
}

}  // namespace
}  // namespace cuflash
