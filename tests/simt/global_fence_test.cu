// Proxy fences of global memory, and counts by which blocks learn of each other's stores. Planted
// faults, each with its correct twin.
#include "device/ptx/block_count.h"
#include "device/ptx/bulk_reduce.h"
#include "device/ptx/tensor_store.h"
#include "tensor_copy_support.h"

namespace cuflash::simt {
namespace {

class GlobalFence : public TensorCopyTest {
 protected:
  // The one finding, which names both lines, and what to do.
  static void expect_finding(const std::string& title, const std::string& earlier,
                             const std::string& later, const std::string& advice) {
    const Finding finding = only_finding(FindingKind::kAsyncCopy);
    EXPECT_EQ(finding.title(), title);
    says(finding, earlier);
    EXPECT_EQ(finding.location, later);
    says(finding, advice);
  }
  Array<unsigned> counts_{2, 0u, "counts"};
};

// ---- What threads have written -----------------------------------------------------------------

enum class By { kCopy, kStore, kReduction };
enum class Fence { kNone, kTooEarly, kWriter, kIssuer, kBoth, kOfSharedMemory };

// A thread has TMA access the first rows of global memory.
__device__ void access_by_tma(const TensorMap& map, Half* memory, By by) {
  __shared__ __align__(128) Half tile[kRows * kCols];
  __shared__ std::uint64_t full;
  ptx::mbarrier_init(&full, 1);
  ptx::fence_mbarrier_init();
  for (int i = 0; i < kRows * kCols; ++i) tile[i] = 0;
  ptx::fence_proxy_async();
  if (by == By::kCopy) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(tile, map, 0, 0, 0, 0, &full);  // copies
    ptx::mbarrier_wait(&full, 0);
  } else if (by == By::kStore) {
    ptx::tensor_store(map, 0, 0, 0, 0, tile);  // stores
  } else {
    ptx::bulk_reduce_add(reinterpret_cast<float*>(memory), tile, sizeof tile);  // adds
  }
  ptx::tensor_store_commit();
  ptx::tensor_store_wait<0>();
}

std::string line_of(By by) {
  return by == By::kCopy    ? LINE_MARKED("copies")
         : by == By::kStore ? LINE_MARKED("stores")
                            : LINE_MARKED("adds");
}

__global__ void in_one_block(const __grid_constant__ TensorMap map, Half* memory, By by,
                             Fence fence) {
  if (fence == Fence::kTooEarly) ptx::fence_proxy_async_global();
  memory[threadIdx.x] = 1;  // writes
  if (fence == Fence::kWriter) ptx::fence_proxy_async_global();
  if (fence == Fence::kOfSharedMemory) ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (fence == Fence::kIssuer) ptx::fence_proxy_async_global();
  access_by_tma(map, memory, by);
}

// The first block to begin writes, the second has TMA access what that has written.
__global__ void in_two_blocks(const __grid_constant__ TensorMap map, Half* memory, unsigned* counts,
                              By by, Fence fence) {
  __shared__ unsigned number;
  if (threadIdx.x == 0) number = atomicAdd(&counts[0], 1u);
  __syncthreads();
  if (number == 0) {
    memory[threadIdx.x] = 1;  // writes first
    if (fence == Fence::kWriter || fence == Fence::kBoth) ptx::fence_proxy_async_global();
    __syncthreads();
    if (threadIdx.x == 0) ptx::block_count_add(&counts[1]);
  } else if (threadIdx.x == 0) {
    if (fence == Fence::kWriter) ptx::fence_proxy_async_global();  // before it has learned of it
    ptx::block_count_wait(&counts[1], 1);
    if (fence == Fence::kIssuer || fence == Fence::kBoth) ptx::fence_proxy_async_global();
    access_by_tma(map, memory, by);
  }
}

TEST_F(GlobalFence, LiesBetweenAWriteAndTmaInOneBlock) {
  const std::string title = "ACCESS WITHOUT A PROXY FENCE";
  under_all_schedules([&] {
    for (const By by : {By::kCopy, By::kStore, By::kReduction}) {
      for (const Fence fence : {Fence::kWriter, Fence::kIssuer}) {
        run(in_one_block, {1, 64}, map(), in_.data(), by, fence);
      }
      no_findings();
      for (const Fence fence : {Fence::kNone, Fence::kTooEarly, Fence::kOfSharedMemory}) {
        run(in_one_block, {1, 64}, map(), in_.data(), by, fence);
        expect_finding(title, LINE_MARKED("writes"), line_of(by),
                       "before it signals other threads");
      }
    }
  });
}

TEST_F(GlobalFence, IsMadeByBothOfTwoBlocks) {
  const std::string title = "ACCESS WITHOUT A PROXY FENCE";
  under_all_schedules([&] {
    for (const By by : {By::kCopy, By::kStore, By::kReduction}) {
      const auto run_with = [&](Fence fence) {
        counts_.set({0, 0});
        run(in_two_blocks, {2, 64}, map(), in_.data(), counts_.data(), by, fence);
      };
      run_with(Fence::kBoth);
      no_findings();
      for (const Fence fence : {Fence::kNone, Fence::kIssuer}) {
        run_with(fence);
        expect_finding(title, LINE_MARKED("writes first"), line_of(by),
                       "before it signals other threads");
      }
      run_with(Fence::kWriter);
      expect_finding(title, LINE_MARKED("writes first"), line_of(by),
                     "once it has synchronized with the first thread");
    }
  });
}

// The same threads of one block, which a barrier orders, too: the count is for other blocks.
__global__ void counted_in_one_block(const __grid_constant__ TensorMap map, Half* memory,
                                     unsigned* counts, Fence fence) {
  if (threadIdx.x == 0) {
    memory[0] = 1;  // writes and counts
    if (fence == Fence::kBoth) ptx::fence_proxy_async_global();
    ptx::block_count_add(&counts[1]);
  }
  __syncthreads();
  if (threadIdx.x != 1) return;
  ptx::block_count_wait(&counts[1], 1);
  ptx::fence_proxy_async_global();
  access_by_tma(map, memory, By::kCopy);
}

TEST_F(GlobalFence, PrecedesACountInOneBlock) {
  run(counted_in_one_block, {1, 2}, map(), in_.data(), counts_.data(), Fence::kBoth);
  no_findings();
  counts_.set({0, 0});
  run(counted_in_one_block, {1, 2}, map(), in_.data(), counts_.data(), Fence::kIssuer);
  expect_finding("ACCESS WITHOUT A PROXY FENCE", LINE_MARKED("writes and counts"),
                 line_of(By::kCopy), "before it signals other threads");
}

// What came before the launch needs no fence.
TEST_F(GlobalFence, IsNotNeededAfterALaunch) {
  run(in_one_block, {1, 64}, map(), in_.data(), By::kCopy, Fence::kWriter);
  run(in_two_blocks, {1, 64}, map(), in_.data(), counts_.data(), By::kCopy, Fence::kNone);
  counts_.set({1, 1});
  run(in_two_blocks, {1, 64}, map(), in_.data(), counts_.data(), By::kReduction, Fence::kNone);
}

// ---- What TMA has added to ---------------------------------------------------------------------

enum class Turns { kRight, kAnyOrder, kNoFence, kFenceTooEarly, kOnlyRead, kNotAwaited };

// Blocks add to the same floats, one after the other.
__global__ void add_in_turn(float* sums, unsigned* counts, Turns how) {
  __shared__ __align__(16) float terms[64];
  for (float& term : terms) term = 1;
  ptx::fence_proxy_async();
  const unsigned number = atomicAdd(&counts[0], 1u);
  if (how == Turns::kFenceTooEarly) ptx::fence_proxy_async_global();
  if (how != Turns::kAnyOrder) ptx::block_count_wait(&counts[1], number);
  if (how != Turns::kNoFence && how != Turns::kFenceTooEarly && how != Turns::kAnyOrder) {
    ptx::fence_proxy_async_global();
  }
  ptx::bulk_reduce_add(sums, terms, sizeof terms);  // adds in turn
  ptx::tensor_store_commit();
  if (how != Turns::kNotAwaited) ptx::tensor_store_wait_read<0>();
  if (how != Turns::kNotAwaited && how != Turns::kOnlyRead) ptx::tensor_store_wait<0>();
  ptx::block_count_add(&counts[1]);  // counts
  ptx::tensor_store_wait<0>();
}

class InTurn : public GlobalFence {
 protected:
  void run_with(Turns how) {
    counts_.set({0, 0});
    sums_.set(std::vector<float>(64));
    run(add_in_turn, {3, 1}, sums_.data(), counts_.data(), how);
    EXPECT_EQ(sums_.values()[63], 3);
  }
  Array<float> sums_{64, 0.f, "sums"};
};

TEST_F(InTurn, AFenceFollowsTheWait) {
  under_all_schedules([&] {
    run_with(Turns::kRight);
    run_with(Turns::kAnyOrder);
    no_findings();
    for (const Turns how : {Turns::kNoFence, Turns::kFenceTooEarly}) {
      run_with(how);
      expect_finding("ACCESS WITHOUT A PROXY FENCE", LINE_MARKED("adds in turn"),
                     LINE_MARKED("adds in turn"), "once it has synchronized with the first thread");
    }
  });
}

TEST_F(InTurn, AStoreEndsBeforeItIsCounted) {
  for (const Turns how : {Turns::kOnlyRead, Turns::kNotAwaited}) {
    run_with(how);
    expect_finding("COUNT BEFORE THE END OF A STORE", LINE_MARKED("adds in turn"),
                   LINE_MARKED("counts"), "must call tensor_store_wait() before");
  }
}

// ---- What counts order -------------------------------------------------------------------------

// A thread that adds to a count learns nothing by it, and one that waits passes nothing on.
__global__ void one_way(unsigned* counts, int* out, bool waits) {
  const unsigned number = atomicAdd(&counts[0], 1u);
  if (number == 1 && waits) ptx::block_count_wait(&counts[1], 1);
  if (number == 1 && !waits) ptx::block_count_add(&counts[1]);
  *out += 1;
  if (number == 0) ptx::block_count_add(&counts[1]);
}

TEST_F(GlobalFence, ACountOrdersItsAdditionsBeforeWaits) {
  for (const bool waits : {true, false}) {
    counts_.set({0, 0});
    run(one_way, {2, 1}, counts_.data(), out_.data(), waits);
    if (waits) {
      no_findings();
    } else {
      EXPECT_EQ(only_finding(FindingKind::kGlobalRace).array, "out");
    }
  }
}

}  // namespace
}  // namespace cuflash::simt
