// cp.async and the XOR layout: what is copied, when it arrives, and that no banks conflict.
#include "device/mma_fragments.h"
#include "device/ptx/cp_async.h"
#include "device/ptx/ldmatrix.h"
#include "device/swizzle.h"
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

constexpr int kRows = 32;

// A tile goes through the XOR layout: copied by rows, read by ldmatrix.
template <int kCols, bool kTrans>
__global__ void through_swizzle(const unsigned short* from, unsigned* out) {
  using Layout = Swizzle<kRows, kCols>;
  __shared__ __align__(1024) unsigned short tile[kRows * kCols];
  constexpr int kChunks = Layout::kChunks;
  for (int n = threadIdx.x; n < kRows * kCols / 8; n += kThreads) {
    const int row = n / kChunks % kRows, panel = n / kChunks / kRows;
    const int col = panel * Layout::kPanelCols + n % kChunks * 8;
    ptx::cp_async_16(&tile[Layout::index(row, col)], &from[row * kCols + col]);
  }
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  __syncthreads();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int quarter = warp; quarter < kRows * kCols / 256; quarter += kThreads / 32) {
    const int row = quarter % (kRows / 16) * 16 + QuartersDown::row(lane);
    const int col = quarter / (kRows / 16) * 16 + QuartersDown::col(lane);
    std::uint32_t r[4];
    if (kTrans) {
      ptx::ldmatrix_x4_trans(r, &tile[Layout::index(row, col)]);
    } else {
      ptx::ldmatrix_x4(r, &tile[Layout::index(row, col)]);
    }
    for (int i = 0; i < 4; ++i) out[(quarter * 32 + lane) * 4 + i] = r[i];
  }
}

template <int kCols, bool kTrans>
void check_swizzle() {
  const Array<unsigned short> from(numbers(kRows * kCols));
  const Array<unsigned> out(std::vector<unsigned>(kRows * kCols / 2));
  simt::reset_counts();
  run(through_swizzle<kCols, kTrans>, {1, kThreads}, from.data(), out.data());
  std::vector<unsigned> expected;
  for (int i = 0; i < kRows * kCols / 2; ++i) {
    const int matrix = i % 4, lane = i / 4 % 32, quarter = i / 128;
    unsigned pair[2];
    for (int half = 0; half < 2; ++half) {
      const int r = LdMatrix::row(lane, half), c = LdMatrix::col(lane, half);
      const int row = quarter % (kRows / 16) * 16 + matrix % 2 * 8 + (kTrans ? c : r);
      const int col = quarter / (kRows / 16) * 16 + matrix / 2 * 8 + (kTrans ? r : c);
      pair[half] = row * kCols + col;
    }
    expected.push_back(pair[1] << 16 | pair[0]);
  }
  EXPECT_EQ(out.values(), expected) << kCols;
  if (simt::counts_accesses()) {
    EXPECT_EQ(simt::counts().bank_conflicts, 0u) << kCols;
    EXPECT_EQ(simt::counts().shared_wavefronts, 2u * kRows * kCols / 64) << kCols;
  }
}

TEST_F(Copies, ThroughTheSwizzle) {
  check_swizzle<32, false>();
  check_swizzle<64, false>();
  check_swizzle<96, false>();
  check_swizzle<128, false>();
  check_swizzle<256, false>();
}

TEST_F(Copies, ThroughTheSwizzleTransposed) {
  check_swizzle<32, true>();
  check_swizzle<64, true>();
  check_swizzle<96, true>();
  check_swizzle<128, true>();
  check_swizzle<256, true>();
}

}  // namespace
}  // namespace cuflash
