// Fences and atomic operations: what they order, and what they do not.
#include "support.h"

namespace cuflash::simt {
namespace {

class FenceTest : public AccessTest {
 protected:
  // Runs the kernel under every schedule. Each must find races of this array, or nothing.
  template <class Kernel>
  void check(const std::string& racy_array, const Kernel& launch_kernel) {
    under_all_schedules([&] {
      launch_kernel();
      bool races = false;
      for (const Finding& finding : take_findings()) {
        if (finding.array == "partial" || finding.array == "box") {
          EXPECT_EQ(finding.array, racy_array) << finding.message();
        }
        races |= finding.title().find("RACE") == 0 && finding.array == racy_array;
        EXPECT_FALSE(racy_array.empty()) << finding.message();
      }
      EXPECT_EQ(races, !racy_array.empty());
    });
  }
};

// ---- The last block reads the results of all ---------------------------------------------------

constexpr int kBlocks = 5;

enum class Fencing { kNone, kEachThread, kOneThread, kTooEarly, kInBlock };

template <Fencing kFencing>
__global__ void last_block_adds(float* partial, float* out, unsigned* count, int counters) {
  __shared__ bool last;
  const int t = threadIdx.x, n = gridDim.x * blockDim.x;
  if (kFencing == Fencing::kTooEarly) __threadfence();
  partial[blockIdx.x * blockDim.x + t] = 1.f;
  if (kFencing == Fencing::kEachThread) __threadfence();
  if (kFencing == Fencing::kInBlock) __threadfence_block();
  __syncthreads();
  if (t == 0) {
    if (kFencing == Fencing::kOneThread) __threadfence();
    // With a counter for each block the blocks never meet.
    last = atomicInc(count + blockIdx.x % counters, gridDim.x / counters - 1) ==
           gridDim.x / counters - 1;
  }
  __syncthreads();
  if (!last) return;
  float sum = 0.f;
  for (int i = t; i < n; i += blockDim.x) sum += partial[i];
  out[t] = sum;
  if (t == 0) *count = 0;  // for the next launch
}

class LastBlock : public FenceTest {
 protected:
  template <Fencing kFencing>
  void check_last_block(const std::string& racy_array) {
    check(racy_array, [&] {
      run(last_block_adds<kFencing>, {kBlocks, 64}, partial_.data(), out_.data(), count_.data(), 1);
      EXPECT_EQ(out_.values()[63], kBlocks);
    });
  }
  const Array<float> partial_{kBlocks * 64, 0.f, "partial"}, out_{64};
  const Array<unsigned> count_{kBlocks, 0u};
};

TEST_F(LastBlock, EachThreadFencesWhatItWrote) { check_last_block<Fencing::kEachThread>(""); }

TEST_F(LastBlock, OneThreadFencesWhatTheBlockWrote) { check_last_block<Fencing::kOneThread>(""); }

TEST_F(LastBlock, NoFence) { check_last_block<Fencing::kNone>("partial"); }

TEST_F(LastBlock, FenceBeforeTheWrite) { check_last_block<Fencing::kTooEarly>("partial"); }

TEST_F(LastBlock, FenceOfTheBlockOnly) { check_last_block<Fencing::kInBlock>("partial"); }

TEST_F(LastBlock, OnAnotherCounter) {
  check("partial", [&] {
    run(last_block_adds<Fencing::kEachThread>, {kBlocks, 64}, partial_.data(), out_.data(),
        count_.data(), kBlocks);
  });
}

// Lane 0 counts for its warp: what the lanes wrote before __syncwarp() is in its fence.
__global__ void last_warp_adds(float* partial, float* out, unsigned* count, bool meet) {
  const int lane = threadIdx.x;
  partial[blockIdx.x * 32 + lane] = 1.f;
  if (meet) __syncwarp();
  unsigned ticket = 0;
  if (lane == 0) {
    __threadfence();
    ticket = atomicAdd(count, 1u);
  }
  __syncwarp();
  if (__shfl_sync(0xffffffffu, ticket, 0) % gridDim.x != gridDim.x - 1) return;
  float sum = 0.f;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += partial[block * 32 + lane];
  out[lane] = sum;
}

TEST_F(LastBlock, OfOneWarp) {
  for (const bool meet : {true, false}) {
    check(meet ? "" : "partial", [&] {
      run(last_warp_adds, {kBlocks, 32}, partial_.data(), out_.data(), count_.data(), meet);
      EXPECT_EQ(out_.values()[31], kBlocks);
    });
  }
}

// ---- Chains ------------------------------------------------------------------------------------

// Block 0 passes on to block 1 through one counter, block 1 to block 2 through another. Run in
// order, each block finds that its predecessor has been there.
__global__ void chain(float* partial, float* out, int* counters, bool complete) {
  const int block = blockIdx.x;
  if (block == 0) partial[0] = 7.f;
  if (block > 0) atomicAdd(&counters[block - 1], 1);
  if (complete || block == 0) __threadfence();
  if (block < 2) atomicAdd(&counters[block], 1);
  if (block == 2) out[0] = partial[0];
}

TEST_F(FenceTest, OrderIsTransitive) {
  const Array<float> partial(1, 0.f, "partial"), out(1);
  const Array<int> counters(2, 0);
  run(chain, {3, 1}, partial.data(), out.data(), counters.data(), true);
  EXPECT_EQ(out.values()[0], 7.f);
  EXPECT_TRUE(take_findings().empty());
  run(chain, {3, 1}, partial.data(), out.data(), counters.data(), false);
  EXPECT_EQ(only_finding(FindingKind::kGlobalRace).array, "partial");
}

// ---- Within a block ----------------------------------------------------------------------------

// Warp 1 waits for the flag that warp 0 sets.
template <bool kFence>
__global__ void hand_over(float* out) {
  __shared__ float box;
  __shared__ int flag;
  const int t = threadIdx.x;
  if (t == 0) flag = 0;
  __syncthreads();
  if (t == 0) {
    box = 3.f;
    if (kFence) __threadfence_block();
    atomicExch(&flag, 1);
  }
  if (t == 32) {
    while (atomicAdd(&flag, 0) == 0) {
    }
    *out = box;
  }
}

TEST_F(FenceTest, WithinABlock) {
  const Array<float> out(1);
  check("", [&] {
    run(hand_over<true>, {1, 64}, out.data());
    EXPECT_EQ(out.values()[0], 3.f);
  });
  check("box", [&] { run(hand_over<false>, {1, 64}, out.data()); });
}

}  // namespace
}  // namespace cuflash::simt
