// wgmma: its fences, its wait, its operands and registers. Planted faults, each with its correct
// twin.
#include <cmath>

#include "device/matrix_descriptor.h"
#include "device/mma_fragments.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/setmaxnreg.h"
#include "device/ptx/tensor_copy.h"
#include "device/ptx/wgmma.h"
#include "device/swizzle.h"
#include "support.h"

namespace cuflash::simt {
namespace {

using ptx::Major;

constexpr int kM = 64, kN = 32, kK = 64, kBlocks = kN / 8;

class WgmmaTest : public AccessTest {
 protected:
  Array<float> out_{2 * kM * kN, 0.0f, "out"};
};

// D[row][col] of a product: A is all ones, and row n of B, by which B lies, is n.
constexpr float kColumn7 = 7 * kK;

__device__ void store(float* out, const float (&rD)[kBlocks][4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int b = 0; b < kBlocks; ++b) {
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * warp + MmaAccumulator::row(lane, i);
      out[blockIdx.x * kM * kN + row * kN + 8 * b + MmaAccumulator::col(lane, i)] = rD[b][i];
    }
  }
}

__device__ void multiply(float (&rD)[kBlocks][4], const SwizzledTile<__half, kM, kK>& sA,
                         const SwizzledTile<__half, kN, kK>& sB) {
  for (int k = 0; k < kK; k += 16) {
    ptx::wgmma_m64k16<__half, Major::kK>(rD, k_major(sA, 0, k), k_major(sB, 0, k), k > 0);
  }
}

// Makes both operands, ready for products.
__device__ void fill(SwizzledTile<__half, kM, kK>& sA, SwizzledTile<__half, kN, kK>& sB) {
  for (int i = threadIdx.x; i < kM * kK; i += blockDim.x) sA(i / kK, i % kK) = __half(1.0f);
  for (int i = threadIdx.x; i < kN * kK; i += blockDim.x) {
    sB(i / kK, i % kK) = __half(static_cast<float>(i / kK));
  }
  ptx::fence_proxy_async();
  __syncthreads();
}

// ---- The operands before the product -----------------------------------------------------------

enum class Before { kRight, kNoProxyFence, kFenceTooEarly, kNoBarrier, kRowMissing };

__global__ void prepare(float* out, Before how) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  if (how == Before::kFenceTooEarly) ptx::fence_proxy_async();
  for (int i = threadIdx.x; i < kM * kK; i += 128) sA(i / kK, i % kK) = __half(1.0f);
  for (int i = threadIdx.x; i < kN * kK; i += 128) {
    if (how == Before::kRowMissing && i / kK == 9) continue;
    sB(i / kK, i % kK) = __half(static_cast<float>(i / kK));  // writes B
  }
  if (how != Before::kNoProxyFence && how != Before::kFenceTooEarly) ptx::fence_proxy_async();
  if (how != Before::kNoBarrier) __syncthreads();
  float rD[kBlocks][4];
  ptx::wgmma_fence();
  for (int k = 0; k < kK; k += 16) {
    ptx::wgmma_m64k16<__half, Major::kK>(rD, k_major(sA, 0, k), k_major(sB, 0, k), k > 0);  // reads
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  store(out, rD);
}

TEST_F(WgmmaTest, IsCounted) {
  run(prepare, {2, 128}, out_.data(), Before::kRight);
  EXPECT_EQ(counts().products, 2u * kK / 16);
  EXPECT_EQ(counts().multiply_adds, 2u * kM * kN * kK);
}

TEST_F(WgmmaTest, IsLogged) {
  log_accesses(true);
  run(prepare, {1, 128}, out_.data(), Before::kRight);
  log_accesses(false);
  const AccessLog log = take_access_log();
  ASSERT_EQ(log.products.size(), std::size_t{kK / 16});
  const LoggedProduct& second = log.products[1];
  EXPECT_EQ(second.rows, kM);
  EXPECT_EQ(second.cols, kN);
  EXPECT_EQ(second.a, std::vector<float>(kM * 16, 1.f));
  EXPECT_EQ(second.b[15 * kN + 7], 7.f);
  EXPECT_EQ(second.d[63 * kN + 7], 7.f * 16) << "the sums of the first";
  EXPECT_EQ(log.sites[second.at.site].location, LINE_MARKED("reads"));
  EXPECT_LE(second.before, log.accesses.size() - kM * kN) << "then come the stores to out";
}

TEST_F(WgmmaTest, TheOperandsMustBeThere) {
  under_all_schedules([&] {
    run(prepare, {2, 128}, out_.data(), Before::kRight);
    EXPECT_EQ(out_.values()[63 * kN + 7], kColumn7);
    no_findings();
    for (const Before how : {Before::kNoProxyFence, Before::kFenceTooEarly}) {
      run(prepare, {1, 128}, out_.data(), how);
      bool of_b = false;
      for (const Finding& finding : take_findings()) {
        EXPECT_EQ(finding.title(), "WRITE WITHOUT A PROXY FENCE");
        says(finding, LINE_MARKED("reads"));
        of_b |= finding.message().find(LINE_MARKED("writes B")) != std::string::npos;
      }
      EXPECT_TRUE(of_b);
    }
    run(prepare, {1, 128}, out_.data(), Before::kRowMissing);
    const Finding finding = only_finding(FindingKind::kUninitialised);
    EXPECT_EQ(finding.array, "sB");
    EXPECT_EQ(finding.location, LINE_MARKED("reads"));
    run(prepare, {1, 128}, out_.data(), Before::kNoBarrier);
    bool race = false;
    for (const Finding& found : take_findings()) {
      EXPECT_EQ(found.title(), "RACE in shared memory");
      race |= found.message().find(LINE_MARKED("writes B")) != std::string::npos;
      says(found, LINE_MARKED("reads"));
    }
    EXPECT_TRUE(race);
  });
}

// Each warp reads its own rows of A only, and all of B.
__global__ void own_rows(float* out, bool sync) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  fill(sA, sB);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int row = 16 * warp; row < 16 * warp + 16; ++row) {
    sA(row, lane) = __half(2.0f);  // replaces A
  }
  ptx::fence_proxy_async();
  if (sync) __syncwarp();
  float rD[kBlocks][4];
  ptx::wgmma_fence();
  multiply(rD, sA, sB);  // takes A
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  store(out, rD);
}

TEST_F(WgmmaTest, AWarpReadsItsOwnRows) {
  under_all_schedules([&] {
    run(own_rows, {1, 128}, out_.data(), true);
    EXPECT_EQ(out_.values()[40 * kN + 3], 3 * (kK + 32));
    no_findings();
    run(own_rows, {1, 128}, out_.data(), false);
    expect_lines(only_finding(FindingKind::kSharedRace), {"replaces A"});
  });
}

// ---- The operands until the wait ---------------------------------------------------------------

enum class Overwrites { kAfterBarrier, kBeforeWait, kAfterWait, kOwnWarp };

__global__ void overwrite(float* out, Overwrites when) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  fill(sA, sB);
  if (threadIdx.x < 128) {
    float rD[kBlocks][4];
    ptx::wgmma_fence();
    for (int k = 0; k < kK; k += 16) {
      const ptx::MatrixDescriptor a = k_major(sA, 0, k), b = k_major(sB, 0, k);
      ptx::wgmma_m64k16<__half, Major::kK>(rD, a, b, k > 0);  // still reads
    }
    ptx::wgmma_commit();
    if (when == Overwrites::kBeforeWait)
      sB(threadIdx.x / 4, threadIdx.x % 4) = __half(9.0f);  // too early
    ptx::wgmma_wait<0>();
    if (when == Overwrites::kOwnWarp) sA(threadIdx.x / 2, threadIdx.x % 2) = __half(9.0f);
    store(out, rD);
  }
  if (when == Overwrites::kAfterBarrier) __syncthreads();
  if (threadIdx.x == 128 && when <= Overwrites::kAfterWait) sB(7, 3) = __half(9.0f);  // replaces B
}

TEST_F(WgmmaTest, TheOperandsMustStay) {
  under_all_schedules([&] {
    for (const Overwrites when : {Overwrites::kAfterBarrier, Overwrites::kOwnWarp}) {
      run(overwrite, {1, 160}, out_.data(), when);
      EXPECT_EQ(out_.values()[7], kColumn7);
      no_findings();
    }
    run(overwrite, {1, 128}, out_.data(), Overwrites::kBeforeWait);
    EXPECT_NE(out_.values()[1], kK);
    const Finding finding = only_finding(FindingKind::kAsyncProduct);
    expect_report(finding, "OPERAND OF A PRODUCT OVERWRITTEN", "too early", {"still reads"});
    EXPECT_EQ(finding.array, "sB");
    // The product may find the new value, run beside the write, or have ended.
    run(overwrite, {1, 160}, out_.data(), Overwrites::kAfterWait);
    const std::vector<Finding> findings = take_findings();
    ASSERT_FALSE(findings.empty());
    for (const Finding& found : findings) {
      EXPECT_EQ(found.array, "sB");
      says(found, LINE_MARKED("still reads"));
      says(found, LINE_MARKED("replaces B"));
    }
  });
}

// ---- Registers ---------------------------------------------------------------------------------

enum class Touches { kAfterWait, kReads, kWrites, kNeverWaits, kNeverCommits };

__global__ void touch(float* out, Touches how) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  fill(sA, sB);
  float rD[kBlocks][4];
  ptx::wgmma_fence();
  for (int k = 0; k < kK; k += 16) {
    const ptx::MatrixDescriptor a = k_major(sA, 0, k), b = k_major(sB, 0, k);
    ptx::wgmma_m64k16<__half, Major::kK>(rD, a, b, k > 0);  // sums up
  }
  if (how != Touches::kNeverCommits) ptx::wgmma_commit();
  if (how == Touches::kReads) out[threadIdx.x] = rD[1][2];  // reads D
  if (how == Touches::kWrites) rD[1][2] = 0;                // writes D
  if (how == Touches::kNeverWaits) return;
  ptx::wgmma_wait<0>();
  if (how == Touches::kAfterWait) store(out, rD);
}

TEST_F(WgmmaTest, TheAccumulatorBelongsToTheProduct) {
  under_all_schedules([&] {
    run(touch, {1, 128}, out_.data(), Touches::kAfterWait);
    EXPECT_EQ(out_.values()[7], kColumn7);
    no_findings();
    for (const Touches how : {Touches::kReads, Touches::kWrites}) {
      run(touch, {1, 128}, out_.data(), how);
      const Finding finding = only_finding(FindingKind::kAsyncProduct);
      expect_report(finding, "REGISTER OF A PRODUCT IN FLIGHT", "", {"sums up"});
      EXPECT_EQ(finding.count, 128u);
      EXPECT_EQ(finding.location,
                how == Touches::kReads ? LINE_MARKED("reads D") : LINE_MARKED("writes D"));
      if (how == Touches::kReads) {
        EXPECT_TRUE(std::isnan(out_.values()[5]));
      }
    }
    for (const Touches how : {Touches::kNeverWaits, Touches::kNeverCommits}) {
      run(touch, {2, 128}, out_.data(), how);
      const Finding finding = only_finding(FindingKind::kAsyncProduct);
      expect_report(finding, "PRODUCT WITHOUT A WAIT", "sums up");
      says(finding, how == Touches::kNeverWaits ? "has not waited for its group"
                                                : "has not committed its group");
    }
  });
}

enum class Operand { kRight, kReads, kWrites, kLdmatrix };

// D = A · B with A in registers, twice.
__global__ void from_registers(float* out, Operand how) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  fill(sA, sB);
  float rD[kBlocks][4] = {};
  std::uint32_t rA[4];
  const std::uint32_t one = pack<__half>(1, 1);
  for (int n = 0; n < 2; ++n) {
    for (std::uint32_t& pair : rA) pair = one;  // packs
    ptx::wgmma_fence();
    for (int k = 0; k < kK; k += 16) {
      ptx::wgmma_m64k16<__half, Major::kK>(rD, rA, k_major(sB, 0, k), true);  // multiplies
    }
    ptx::wgmma_commit();
    if (how == Operand::kReads) out[kM * kN + threadIdx.x] = static_cast<float>(rA[0] + rA[3]);
    if (how == Operand::kWrites) rA[3] = 0;                                 // writes A
    if (how == Operand::kLdmatrix) ptx::ldmatrix_x4(rA, &sA.panels[0][0]);  // loads A
    ptx::wgmma_wait<0>();
  }
  store(out, rD);
}

TEST_F(WgmmaTest, TheLeftOperandMayOnlyBeRead) {
  for (const Operand how : {Operand::kRight, Operand::kReads}) {
    run(from_registers, {1, 128}, out_.data(), how);
    EXPECT_EQ(out_.values()[20 * kN + 7], 2 * kColumn7);
    no_findings();
  }
  for (const Operand how : {Operand::kWrites, Operand::kLdmatrix}) {
    run(from_registers, {1, 128}, out_.data(), how);
    const Finding finding = only_finding(FindingKind::kAsyncProduct);
    expect_report(finding, "REGISTER OF A PRODUCT IN FLIGHT", "", {"multiplies"});
    EXPECT_EQ(finding.location,
              how == Operand::kWrites ? LINE_MARKED("writes A") : LINE_MARKED("loads A"));
    says(finding, "reads its left operand from these registers");
  }
}

// An array of another scope is other registers, on a GPU and here.
__global__ void scopes(float* out) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  fill(sA, sB);
  float rD[kBlocks][4] = {};
  {
    std::uint32_t rA[8][4];
    ptx::ldmatrix_x4(rA[3], &sA.panels[0][0]);
    ptx::wgmma_fence();
    ptx::wgmma_m64k16<__half, Major::kK>(rD, rA[3], k_major(sB, 0, 0), false);
    ptx::wgmma_commit();
  }
  {
    std::uint32_t others[8][4];
    for (auto& other : others) ptx::ldmatrix_x4(other, &sB.panels[0][0]);
    out[kM * kN + threadIdx.x] = static_cast<float>(others[3][0]);
  }
  ptx::wgmma_wait<0>();
  store(out, rD);
}

TEST_F(WgmmaTest, ALeftOperandMayGoOutOfScope) {
  run(scopes, {1, 128}, out_.data());
  EXPECT_EQ(out_.values()[20 * kN + 7], 7 * 16.0f);
}

// ---- wgmma_wait() ------------------------------------------------------------------------------

__global__ void two_groups(float* out) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  fill(sA, sB);
  float rD[kBlocks][4], others[kBlocks][4];
  ptx::wgmma_fence();
  multiply(rD, sA, sB);
  ptx::wgmma_commit();
  multiply(others, sA, sB);
  ptx::wgmma_commit();
  ptx::wgmma_wait<1>();
  store(out, rD);
  ptx::wgmma_wait<0>();
}

TEST_F(WgmmaTest, CountsTheGroupsThatWaitsLeave) {
  reset_counts();
  run(two_groups, {2, 128}, out_.data());
  EXPECT_EQ(counts().products_left, 2u);  // one in each block
}

// ---- wgmma_fence() -----------------------------------------------------------------------------

enum class Fences { kBoth, kNone, kFirstOnly, kBetween };

__global__ void rescale(float* out, Fences fences) {
  __shared__ SwizzledTile<__half, kM, kK> sA;
  __shared__ SwizzledTile<__half, kN, kK> sB;
  fill(sA, sB);
  float rD[kBlocks][4] = {};
  if (fences != Fences::kNone) ptx::wgmma_fence();
  for (int n = 0; n < 2; ++n) {
    // One shape: the accumulator needs no fence between these products.
    for (int k = 0; k < kK; k += 16) {
      const ptx::MatrixDescriptor a = k_major(sA, 0, k), b = k_major(sB, 0, k);
      ptx::wgmma_m64k16<__half, Major::kK>(rD, a, b, true);  // adds
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    if (n == 1) break;
    if (fences == Fences::kBetween) ptx::wgmma_fence();
    for (auto& block : rD) {
      for (float& x : block) x *= 2;  // rescales
    }
    if (fences == Fences::kBoth) ptx::wgmma_fence();
  }
  store(out, rD);
}

TEST_F(WgmmaTest, RegistersNeedAFence) {
  run(rescale, {2, 128}, out_.data(), Fences::kBoth);
  EXPECT_EQ(out_.values()[7], 3 * kColumn7);
  no_findings();
  for (const Fences fences : {Fences::kFirstOnly, Fences::kBetween}) {
    run(rescale, {1, 128}, out_.data(), fences);
    expect_report(only_finding(FindingKind::kAsyncProduct), "PRODUCT WITHOUT A FENCE", "adds",
                  {"rescales"});
  }
  run(rescale, {1, 128}, out_.data(), Fences::kNone);
  const std::vector<Finding> findings = take_findings();
  ASSERT_EQ(findings.size(), 2u);
  for (const Finding& finding : findings) EXPECT_EQ(finding.title(), "PRODUCT WITHOUT A FENCE");
  says(findings[0], "before its first product");
}

}  // namespace
}  // namespace cuflash::simt
