// Operations of a warpgroup: all threads must come, and name the same matrices where they are.
// Planted faults, each with its correct twin.
#include "device/matrix_descriptor.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/named_barrier.h"
#include "device/ptx/setmaxnreg.h"
#include "device/ptx/tensor_copy.h"
#include "device/ptx/wgmma.h"
#include "device/swizzle.h"
#include "support.h"

namespace cuflash::simt {
namespace {

using ptx::Major;

constexpr int kM = 64, kN = 32, kK = 64, kBlocks = kN / 8;

class WarpgroupTest : public AccessTest {
 protected:
  Array<float> out_{2 * kM * kN, 0.0f, "out"};
};

// ---- All threads -------------------------------------------------------------------------------

enum class Comes { kAll, kNotAWarp, kNotALane, kElsewhere, kInSyncthreads, kAtAnotherProduct };

__global__ void meet(Comes who) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  for (int i = threadIdx.x; i < kM * kK; i += blockDim.x) sA(i / kK, i % kK) = __half(1.0f);
  for (int i = threadIdx.x; i < kN * kK; i += blockDim.x) sB(i / kK, i % kK) = __half(1.0f);
  ptx::fence_proxy_async();
  __syncthreads();
  const int warp = threadIdx.x / 32;
  if (who == Comes::kNotAWarp && warp == 6) return;
  if (who == Comes::kNotALane && threadIdx.x == 133) return;
  if (who == Comes::kInSyncthreads && warp == 7) __syncthreads();  // waits for the block
  float rD[kBlocks][4];
  if (who == Comes::kElsewhere && warp == 5) ptx::wgmma_wait<0>();  // the other one
  ptx::wgmma_fence();                                               // the first one
  if (who == Comes::kAtAnotherProduct && warp == 5) {
    ptx::wgmma_m64k16<__half, Major::kK>(rD, k_major(sA, 0, 16), k_major(sB, 0, 0), false);
  } else {
    ptx::wgmma_m64k16<__half, Major::kK>(rD, k_major(sA, 0, 0), k_major(sB, 0, 0), false);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
}

TEST_F(WarpgroupTest, AllThreadsMustCome) {
  const std::string title = "WARPGROUP OPERATION WITHOUT ALL THREADS";
  under_all_schedules([&] {
    run(meet, {1, 256}, Comes::kAll);
    for (const Comes who : {Comes::kNotAWarp, Comes::kNotALane}) {
      const Finding finding = fails(FindingKind::kWarpMask, 256, meet, who);
      expect_report(finding, title, "the first one");
      says(finding, who == Comes::kNotAWarp ? "for warp 6 lane 0, which has exited."
                                            : "for warp 4 lane 5, which has exited.");
    }
    Finding finding = fails(FindingKind::kWarpMask, 256, meet, Comes::kElsewhere);
    expect_report(finding, title, "", {"the first one", "the other one"});
    finding = fails(FindingKind::kWarpMask, 256, meet, Comes::kInSyncthreads);
    says(finding, "for warp 7 lane 0, which waits in __syncthreads() at " +
                      LINE_MARKED("waits for the block"));
    EXPECT_EQ(fails(FindingKind::kWarpMask, 256, meet, Comes::kAtAnotherProduct).title(), title);
    finding = fails(FindingKind::kWarpMask, 224, meet, Comes::kAll);
    says(finding, "for warp 7 lane 0, which does not exist");
    finding = fails(FindingKind::kWarpMask, 129, meet, Comes::kAll);
    says(finding, "for warp 4 lane 1, which does not exist");
  });
}

// The first warp of a warpgroup is a multiple of four: warps 1 to 4 are none.
__global__ void set_registers(int first_warp) {
  const int warp = threadIdx.x / 32 - first_warp;
  if (warp >= 0 && warp < 4) ptx::setmaxnreg_dec<40>();  // gives some back
}

TEST_F(WarpgroupTest, RegistersAreOfAWarpgroup) {
  run(set_registers, {1, 256}, 0);
  run(set_registers, {1, 256}, 4);
  no_findings();
  for (const int first_warp : {1, 2, 5}) {
    expect_report(fails(FindingKind::kWarpMask, 256, set_registers, first_warp),
                  "WARPGROUP OPERATION WITHOUT ALL THREADS", "gives some back");
  }
}

constexpr int kThreeWarpgroups = 3 * 128;
enum class Takes { kRight, kTooMany, kTooEarly };

// The first of three warpgroups gives registers back, the others take some.
__global__ void share_registers(int* out, Takes how) {
  if (threadIdx.x < 128) {
    if (how == Takes::kTooEarly) ptx::named_barrier_sync(1, kThreeWarpgroups);
    ptx::setmaxnreg_dec<24>();
    return;
  }
  if (how == Takes::kTooMany) {
    ptx::setmaxnreg_inc<248>();  // takes too many
  } else {
    ptx::setmaxnreg_inc<240>();  // takes what is left
  }
  if (how == Takes::kTooEarly) ptx::named_barrier_sync(1, kThreeWarpgroups);
  ptx::named_barrier_sync(2, 2 * 128);  // The two stay together.
  if (threadIdx.x % 128 == 0) out[threadIdx.x / 128] = 1;
}

// 65,536 registers for 384 threads are 168 a thread: 504 for the three.
TEST_F(WarpgroupTest, TakesRegistersThatOthersGiveBack) {
  Array<int> out(3, 0, "out");
  const auto lacks = [&](Takes how) {
    return fails(FindingKind::kLaunchLimit, kThreeWarpgroups, share_registers, out.data(), how);
  };
  under_all_schedules([&] {
    out.set({0, 0, 0});
    run(share_registers, {1, kThreeWarpgroups}, out.data(), Takes::kRight);
    EXPECT_EQ(out.values()[2], 1);
    no_findings();
    const Finding too_many = lacks(Takes::kTooMany);
    expect_report(too_many, "TOO FEW REGISTERS", "takes too many");
    says(too_many, "for 248 registers per thread.");
    const Finding too_early = lacks(Takes::kTooEarly);
    EXPECT_EQ(too_early.location, LINE_MARKED("takes what is left"));
    says(too_early, "The warpgroups hold 168, 168, 168, and all began with 168.");
  });
}

// A warp that waits for data of its own is no absent one: nobody will bring them.
__global__ void wait_in_vain(bool first_warp_too) {
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
  __syncthreads();
  if (threadIdx.x >= 32 || first_warp_too) {
    ptx::setmaxnreg_dec<24>();  // for all
  }
  if (threadIdx.x < 32) ptx::mbarrier_wait(&full, 0);  // for data
}

TEST_F(WarpgroupTest, ADeadlockWithAnMbarrier) {
  expect_report(fails(FindingKind::kMbarrier, 128, wait_in_vain, false), "DEADLOCK AT AN MBARRIER",
                "", {"for all", "for data"});
}

// ---- Descriptors -------------------------------------------------------------------------------

enum class Names {
  kRight,
  kOtherInAWarp,
  kOtherAccumulate,
  kOtherStride,
  kPastTheEnd,
  kMisaligned
};

__global__ void describe(float* out, Names what) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  for (int i = threadIdx.x; i < kM * kK; i += 128) sA(i / kK, i % kK) = __half(1.0f);
  for (int i = threadIdx.x; i < kN * kK; i += 128) {
    sB(i / kK, i % kK) = __half(static_cast<float>(i / kK));
  }
  ptx::fence_proxy_async();
  __syncthreads();
  ptx::MatrixDescriptor b = k_major(sB, 0, 0);
  if (what == Names::kOtherInAWarp && threadIdx.x / 32 == 2) b = k_major(sB, 0, 16);
  if (what == Names::kOtherStride) b.stride_bytes /= 2;
  if (what == Names::kPastTheEnd) b.begin += 1 << 30;
  if (what == Names::kMisaligned) b.begin += 8;
  const bool accumulate = what == Names::kOtherAccumulate && threadIdx.x == 77;
  float rD[kBlocks][4] = {};
  ptx::wgmma_fence();
  ptx::wgmma_m64k16<__half, Major::kK>(rD, k_major(sA, 0, 0), b, accumulate);  // names both
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  if (threadIdx.x == 0) {
    for (int b = 0; b < kBlocks; ++b) out[b] = rD[b][0];
  }
}

TEST_F(WarpgroupTest, ItsThreadsNameTheSameMatrices) {
  run(describe, {1, 128}, out_.data(), Names::kRight);
  no_findings();
  Finding finding = fails(FindingKind::kWarpMask, 128, describe, out_.data(), Names::kOtherInAWarp);
  expect_report(finding, "THREADS PASS DIFFERENT MATRICES", "names both");
  says(finding, "warp 2 lane 0");
  finding = fails(FindingKind::kWarpMask, 128, describe, out_.data(), Names::kOtherAccumulate);
  says(finding, "warp 2 lane 13");
}

TEST_F(WarpgroupTest, DescriptorsAreTakenAtTheirWord) {
  run(describe, {1, 128}, out_.data(), Names::kRight);
  EXPECT_EQ(out_.values()[2], 16 * 16.0f);
  // With half the stride, rows 8 and on are rows 4 and on, in the swizzle of where they lie.
  run(describe, {1, 128}, out_.data(), Names::kOtherStride);
  EXPECT_EQ(out_.values()[2], 8 * 16.0f);
  no_findings();
  fails(FindingKind::kOutOfBounds, 128, describe, out_.data(), Names::kPastTheEnd);
  expect_report(fails(FindingKind::kMisaligned, 128, describe, out_.data(), Names::kMisaligned), "",
                "names both");
}

// ---- Counts ------------------------------------------------------------------------------------

// What a product reads does not pass the pipe of loads and stores.
TEST_F(WarpgroupTest, ProductsAreNotCounted) {
  run(describe, {1, 128}, out_.data(), Names::kRight);
  EXPECT_EQ(counts().shared_read_bytes, 0u);
  EXPECT_EQ(counts().shared_write_bytes, static_cast<std::uint64_t>((kM + kN) * kK * 2));
  EXPECT_EQ(counts_of_line(LINE_NUMBER("names both"), true, false).requests, 0u);
}

}  // namespace
}  // namespace cuflash::simt
