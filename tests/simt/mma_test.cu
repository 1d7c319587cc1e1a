// mma.sync and ldmatrix: arithmetic, counts, and planted faults, each with its correct twin. That
// their lane maps are the hardware's is tested on both backends, in tests/device.
#include <limits>

#include "device/mma_fragments.h"
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mma.h"
#include "support.h"

namespace cuflash::simt {
namespace {

// ---- Sums --------------------------------------------------------------------------------------

// Every element of A is `a`, of B `b`.
template <class T>
__global__ void multiply_by(float a, float b, float* d) {
  const MmaA::Registers rA = {pack<T>(a, a), pack<T>(a, a), pack<T>(a, a), pack<T>(a, a)};
  MmaAccumulator::Registers rD;
  for (int i = 0; i < 4; ++i) rD[i] = d[threadIdx.x * 4 + i];
  ptx::mma_m16n8k16<T>(rD, rA, {pack<T>(b, b), pack<T>(b, b)});
  for (int i = 0; i < 4; ++i) d[threadIdx.x * 4 + i] = rD[i];
}

class Mma : public SimulatorTest {};

template <class T>
float sum_of_products(float a, float b, float before) {
  const Array<float> d(128, before);
  run(multiply_by<T>, {1, 32}, a, b, d.data());
  return d.values()[77];
}

// 16 products of 1: a float at 2^24 does not feel them one by one.
TEST_F(Mma, SumsAreRoundedToFloatsOneByOne) {
  EXPECT_EQ(sum_of_products<__half>(1.f, 1.f, 16777216.f), 16777216.f);
  EXPECT_EQ(sum_of_products<__half>(2.f, 1.f, 16777216.f), 16777248.f);
  EXPECT_EQ(sum_of_products<__half>(1.f / 1024, 1.f / 1024, 1.f), 1.f + 16.f / 1048576);
  EXPECT_EQ(sum_of_products<__nv_bfloat16>(1.f, 1.f, 16777216.f), 16777216.f);
}

TEST_F(Mma, EachTypeHasItsRange) {
  EXPECT_EQ(sum_of_products<__half>(32768.f, 32768.f, 0.f), 16.f * 32768.f * 32768.f);
  EXPECT_EQ(sum_of_products<__half>(100000.f, 1.f, 0.f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(sum_of_products<__nv_bfloat16>(65536.f, 65536.f, 0.f), 16.f * 65536.f * 65536.f);
}

TEST_F(Mma, IsCounted) {
  sum_of_products<__half>(1.f, 1.f, 0.f);
  EXPECT_EQ(counts().products, 1u);
  EXPECT_EQ(counts().multiply_adds, 16u * 8 * 16);
}

// ---- The whole warp ----------------------------------------------------------------------------

using MmaWarp = SimulatorTest;

__global__ void multiply_in(int lanes) {
  MmaAccumulator::Registers rD = {};
  if (static_cast<int>(threadIdx.x) < lanes) {
    ptx::mma_m16n8k16<__half>(rD, {0, 0, 0, 0}, {0, 0});  // multiplies in some
  }
  __syncthreads();
}

TEST_F(MmaWarp, AProductNeedsAllLanes) {
  run(multiply_in, {1, 32}, 32);
  run(multiply_in, {1, 32}, 0);
  const Finding finding = fails(FindingKind::kWarpMask, 32, multiply_in, 16);
  expect_report(finding, "MATRIX OPERATION WITHOUT ALL LANES", "multiplies in some");
  says(finding, "for lane 16, which waits in __syncthreads() at mma_test.cu:");
}

__global__ void load_in(int lanes) {
  __shared__ uint4 tile[32];
  tile[threadIdx.x] = {0, 0, 0, 0};
  __syncwarp();
  std::uint32_t r[4];
  if (static_cast<int>(threadIdx.x) < lanes) {
    ptx::ldmatrix_x4(r, &tile[threadIdx.x]);  // loads in some
  } else {
    ptx::ldmatrix_x4_trans(r, &tile[threadIdx.x]);  // loads in others
  }
}

TEST_F(MmaWarp, ALoadNeedsAllLanes) {
  run(load_in, {1, 32}, 32);
  run(load_in, {1, 32}, 0);
  const Finding finding = fails(FindingKind::kWarpMask, 32, load_in, 8);
  expect_report(finding, "MATRIX OPERATION WITHOUT ALL LANES", "loads in some");
  says(finding, "which waits in another warp-wide operation at " + LINE_MARKED("loads in others"));
}

// ---- Memory ------------------------------------------------------------------------------------

using LdMatrixCheck = AccessTest;

// The lane that names a row need not be the one that has written it.
__global__ void write_and_load(bool sync) {
  __shared__ __align__(16) unsigned short sP[32][8];
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) sP[31 - lane][i] = 1;  // writes p
  if (sync) __syncwarp();
  std::uint32_t r[4];
  ptx::ldmatrix_x4(r, sP[lane]);  // loads p
}

TEST_F(LdMatrixCheck, LanesWriteAndThenLoad) {
  under_all_schedules([&] {
    run(write_and_load, {1, 32}, true);
    no_findings();
    run(write_and_load, {1, 32}, false);
    const Finding finding = only_finding(FindingKind::kSharedRace);
    EXPECT_EQ(finding.array, "sP");
    says(finding, LINE_MARKED("writes p"));
    says(finding, LINE_MARKED("loads p") + "   ptx::ldmatrix_x4(r, sP[lane]);");
  });
}

__global__ void load_and_write(bool sync) {
  __shared__ uint4 tile[32];
  const int lane = threadIdx.x;
  tile[lane] = {1, 1, 1, 1};
  __syncwarp();
  std::uint32_t r[4];
  ptx::ldmatrix_x4_trans(r, &tile[lane]);  // loads it
  if (sync) __syncwarp();
  tile[31 - lane] = {2, 2, 2, 2};  // writes it again
}

TEST_F(LdMatrixCheck, LoadAndThenLanesWrite) {
  run(load_and_write, {1, 32}, true);
  run(load_and_write, {1, 32}, false);
  expect_lines(only_finding(FindingKind::kSharedRace), {"loads it", "writes it again"});
}

enum class Row { kRight, kMisaligned, kGlobal, kLocal, kPastTheEnd };

__global__ void load_row(uint4* global, Row which, int filled) {
  __shared__ __align__(16) unsigned short tile[32][8];
  const int lane = threadIdx.x;
  if (lane < filled) {
    for (int i = 0; i < 8; ++i) tile[lane][i] = 1;
  }
  __syncwarp();
  uint4 local = {};
  const void* row = tile[lane];
  if (lane == 20 && which == Row::kMisaligned) row = &tile[20][4];
  if (lane == 20 && which == Row::kGlobal) row = &global[20];
  if (lane == 20 && which == Row::kLocal) row = &local;
  std::uint32_t r[4];
  ptx::ldmatrix_x4(r, row);  // loads a row
  global[lane] = {r[0], r[1], r[2], r[3]};
}

TEST_F(LdMatrixCheck, Rows) {
  const Array<uint4> global(32, uint4{}, "q");
  run(load_row, {1, 32}, global.data(), Row::kRight, 32);
  Finding finding =
      fails(FindingKind::kMisaligned, 32, load_row, global.data(), Row::kMisaligned, 32);
  EXPECT_EQ(finding.location, LINE_MARKED("loads a row"));
  says(finding, "warp 0 lane 20");
  says(finding, "tile[164] (elements of 2 bytes)");
  finding = fails(FindingKind::kOutOfBounds, 32, load_row, global.data(), Row::kGlobal, 32);
  says(finding, "ldmatrix reads shared memory; this is global memory.");
  says(finding, "q[160] (elements of 2 bytes)");
  finding = fails(FindingKind::kOutOfBounds, 32, load_row, global.data(), Row::kLocal, 32);
  says(finding, "ldmatrix reads shared memory; this is a local variable.");
}

TEST_F(LdMatrixCheck, Uninitialised) {
  const Array<uint4> global(32, uint4{});
  run(load_row, {1, 32}, global.data(), Row::kRight, 30);
  const Finding finding = only_finding(FindingKind::kUninitialised);
  EXPECT_EQ(finding.location, LINE_MARKED("loads a row"));
  EXPECT_EQ(finding.count, 2u);
}

struct Storage {
  unsigned short tile[31][8];
};

__global__ void load_dynamic() {
  auto& tile = shared_storage<Storage>().tile;
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) tile[lane % 31][i] = 1;
  __syncwarp();
  std::uint32_t r[4];
  ptx::ldmatrix_x4(r, &tile[lane]);
}

TEST_F(LdMatrixCheck, PastTheEnd) {
  run(load_dynamic, {1, 32, shared_layout<Storage>()});
  bool out_of_bounds = false;
  for (const Finding& finding : take_findings()) {
    if (finding.kind() != FindingKind::kOutOfBounds) continue;
    out_of_bounds = says(finding, "tile[31][0]");
  }
  EXPECT_TRUE(out_of_bounds);
}

// ---- Counts ------------------------------------------------------------------------------------

template <int kPitch, bool kTrans>
__global__ void load_pitch() {
  __shared__ __align__(128) unsigned short tile[32 * kPitch];
  const int lane = threadIdx.x;
  for (int i = lane; i < 32 * kPitch; i += 32) tile[i] = 1;
  __syncwarp();
  std::uint32_t r[4];
  if (kTrans) {
    ptx::ldmatrix_x4_trans(r, &tile[lane * kPitch]);  // loads turned
  } else {
    ptx::ldmatrix_x4(r, &tile[lane * kPitch]);  // loads straight
  }
  MmaAccumulator::Registers rD = {};
  ptx::mma_m16n8k16<__half>(rD, r, {r[0], r[1]});  // multiplies
}

template <int kPitch, bool kTrans>
void expect_wavefronts(std::uint64_t wavefronts) {
  SCOPED_TRACE(kPitch);
  reset_counts();
  run(load_pitch<kPitch, kTrans>, {1, 32});
  const LineCounts counts = counts_of_line(
      kTrans ? LINE_NUMBER("loads turned") : LINE_NUMBER("loads straight"), true, false);
  EXPECT_EQ(counts.requests, 1u);
  EXPECT_EQ(counts.bytes, 512u);
  EXPECT_EQ(counts.wavefronts, wavefronts);
  EXPECT_EQ(counts.conflicts, wavefronts - 4);
  for (const bool shared : {false, true}) {
    EXPECT_EQ(counts_of_line(LINE_NUMBER("multiplies"), shared, false).requests, 0u);
  }
}

// Each matrix is a wavefront, if its 8 rows of 16 bytes lie in different banks.
TEST_F(LdMatrixCheck, Wavefronts) {
  expect_wavefronts<72, false>(4);   // rows begin in banks 0, 4, 8 ... 28
  expect_wavefronts<64, false>(32);  // all in bank 0
  expect_wavefronts<16, false>(8);   // 0, 8, 16, 24, 0 ... 24
  expect_wavefronts<8, false>(4);    // without gaps
  expect_wavefronts<72, true>(4);
  expect_wavefronts<64, true>(32);
}

}  // namespace
}  // namespace cuflash::simt
