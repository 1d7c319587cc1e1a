// cp.async: the addresses of copies, and their counts.
#include "device/ptx/cp_async.h"
#include "support.h"

namespace cuflash::simt {
namespace {

constexpr int kThreads = 64;

class CpAsyncMemory : public AccessTest {
 protected:
  Array<float> in_{4 * kThreads, 1.f, "in"};
};

enum class Operands {
  kRight,
  kMisalignedTo,
  kMisalignedFrom,
  kToGlobal,
  kFromShared,
  kFromLocal,
  kFromNull,
  kPastTheEnd
};

__global__ void copy_operands(float* in, Operands operands) {
  __shared__ __align__(16) float tile[8];
  if (threadIdx.x != 0) return;
  float4 local = {1.f, 2.f, 3.f, 4.f};
  void* to = tile;
  const void* from = in;
  if (operands == Operands::kMisalignedTo) to = &tile[1];
  if (operands == Operands::kMisalignedFrom) from = &in[2];
  if (operands == Operands::kToGlobal) to = &in[4];
  if (operands == Operands::kFromShared) from = &tile[4];
  if (operands == Operands::kFromLocal) from = &local;
  if (operands == Operands::kFromNull) from = nullptr;
  if (operands == Operands::kPastTheEnd) from = &in[4 * kThreads];
  ptx::cp_async_16(to, from);  // copies there
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
}

TEST_F(CpAsyncMemory, Operands) {
  run(copy_operands, {1, kThreads}, in_.data(), Operands::kRight);
  const auto fails = [&](FindingKind kind, Operands operands) {
    const Finding finding =
        CpAsyncMemory::fails(kind, kThreads, copy_operands, in_.data(), operands);
    expect_report(finding, "", "copies there");
    return finding;
  };
  says(fails(FindingKind::kMisaligned, Operands::kMisalignedTo), "a multiple of 16");
  says(fails(FindingKind::kMisaligned, Operands::kMisalignedFrom), "in + 8 bytes");
  says(fails(FindingKind::kOutOfBounds, Operands::kToGlobal),
       "cp.async writes shared memory; this is global memory.");
  says(fails(FindingKind::kOutOfBounds, Operands::kFromShared),
       "cp.async reads global memory; this is shared memory.");
  says(fails(FindingKind::kOutOfBounds, Operands::kFromLocal),
       "cp.async reads global memory; this is a local variable.");
  fails(FindingKind::kNullPointer, Operands::kFromNull);
  run(copy_operands, {1, kThreads}, in_.data(), Operands::kPastTheEnd);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.location, LINE_MARKED("copies there"));
  says(finding, "It reaches 16 bytes past the end of an allocation of 1024 bytes.");
}

__global__ void copy_rows(const float* in, int rows) {
  __shared__ float4 tile[kThreads];
  const int t = threadIdx.x;
  ptx::cp_async_16(&tile[t], &in[4 * t], t < rows);  // copies rows that are there
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
}

TEST_F(CpAsyncMemory, ReadsNothingWhereNotValid) {
  const Array<float> in(4 * 40, 1.f);
  run(copy_rows, {1, kThreads}, in.data(), 40);
  run(copy_rows, {1, kThreads}, in.data(), 41);
  EXPECT_EQ(only_finding(FindingKind::kOutOfBounds).count, 1u);
}

TEST_F(CpAsyncMemory, ReadsOfAnUninitialisedSource) {
  const Array<float> in(4 * kThreads);
  run(copy_rows, {1, kThreads}, in.data(), 2);
  expect_report(only_finding(FindingKind::kUninitialised), "", "copies rows that are there");
}

// Elements of 2 bytes: cells of 2 bytes.
__global__ void halves(const unsigned short* in, unsigned short* out, bool wait) {
  __shared__ __align__(16) unsigned short tile[8 * 32];
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) tile[8 * lane + i] = in[8 * lane + i];
  ptx::cp_async_16(&tile[8 * lane], &in[8 * lane]);
  ptx::cp_async_commit();
  if (wait) ptx::cp_async_wait<0>();
  out[lane] = tile[8 * lane + 7];
  ptx::cp_async_wait<0>();
}

TEST_F(CpAsyncMemory, OfElementsOfTwoBytes) {
  const Array<unsigned short> in(256, 3), out(32);
  run(halves, {1, 32}, in.data(), out.data(), true);
  EXPECT_EQ(out.values()[31], 3);
  no_findings();
  run(halves, {1, 32}, in.data(), out.data(), false);
  says(only_finding(FindingKind::kAsyncCopy), "  tile[7] (elements of 2 bytes)\n");
}

// ---- Counts ------------------------------------------------------------------------------------

// A row of 128 bytes is 8 chunks. Lanes take them along rows, or down a column.
__global__ void copy_chunks(const float4* in, int valid, bool down) {
  __shared__ __align__(128) float4 tile[32][8];
  const int lane = threadIdx.x;
  const int row = down ? lane : lane / 8, chunk = down ? 0 : lane % 8;
  ptx::cp_async_16(&tile[row][chunk], &in[row * 8 + chunk], lane < valid);  // copies chunks
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
}

TEST_F(CpAsyncMemory, Counts) {
  const Array<float4> in(256, float4{1.f, 1.f, 1.f, 1.f});
  run(copy_chunks, {1, 32}, in.data(), 32, false);
  const std::string line = LINE_NUMBER("copies chunks");
  LineCounts read = counts_of_line(line, false, false), write = counts_of_line(line, true, true);
  EXPECT_EQ(read.requests, 1u);
  EXPECT_EQ(read.bytes, 512u);
  EXPECT_EQ(read.sectors, 16u);
  EXPECT_EQ(write.requests, 1u);
  EXPECT_EQ(write.bytes, 512u);
  EXPECT_EQ(write.wavefronts, 4u);
  EXPECT_EQ(write.conflicts, 0u);
  EXPECT_EQ(line_counts().size(), 2u);

  reset_counts();
  run(copy_chunks, {1, 32}, in.data(), 32, true);
  read = counts_of_line(line, false, false), write = counts_of_line(line, true, true);
  EXPECT_EQ(read.sectors, 32u);
  EXPECT_EQ(write.wavefronts, 32u);
  EXPECT_EQ(write.conflicts, 28u);

  // Zeros are written and not read.
  reset_counts();
  run(copy_chunks, {1, 32}, in.data(), 10, false);
  EXPECT_EQ(counts_of_line(line, false, false).bytes, 160u);
  EXPECT_EQ(counts_of_line(line, true, true).bytes, 512u);
  reset_counts();
  run(copy_chunks, {1, 32}, in.data(), 0, false);
  EXPECT_EQ(counts().global_read_bytes, 0u);
  EXPECT_EQ(counts().shared_write_bytes, 512u);
  EXPECT_EQ(counts().shared_read_bytes, 0u);
}

}  // namespace
}  // namespace cuflash::simt
