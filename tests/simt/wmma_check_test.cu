// nvcuda::wmma: planted faults, each with its correct twin.
#include <mma.h>

#include "support.h"

namespace cuflash::simt {
namespace {

using namespace nvcuda::wmma;

using A = fragment<matrix_a, 16, 16, 16, __half, row_major>;
using B = fragment<matrix_b, 16, 16, 16, __half, row_major>;
using Sum = fragment<accumulator, 16, 16, 16, float>;

// ---- Races -------------------------------------------------------------------------------------

class WmmaCheck : public AccessTest {
 protected:
  Array<__half> in_{256, __half(1.f)};
  Array<float> out_{256};
};

__global__ void lanes_then_load(const __half* in, bool sync) {
  alignas(32) __shared__ __half sP[16][16];
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) sP[lane / 2][lane % 2 * 8 + i] = in[i];  // writes p
  if (sync) __syncwarp();
  A f;
  load_matrix_sync(f, &sP[0][0], 16);  // reads p
}

TEST_F(WmmaCheck, LanesWriteAndThenLoad) {
  under_all_schedules([&] {
    run(lanes_then_load, {1, 32}, in_.data(), true);
    no_findings();
    run(lanes_then_load, {1, 32}, in_.data(), false);
    const Finding finding = only_finding(FindingKind::kSharedRace);
    EXPECT_EQ(finding.array, "sP");
    says(finding, LINE_MARKED("writes p"));
    says(finding, LINE_MARKED("reads p") + "   load_matrix_sync(f, &sP[0][0], 16);");
  });
}

__global__ void store_then_lanes(float* out, bool sync) {
  alignas(32) __shared__ float sS[16][16];
  Sum f;
  fill_fragment(f, 1.f);
  store_matrix_sync(&sS[0][0], f, 16, mem_row_major);  // writes s
  if (sync) __syncwarp();
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) out[lane * 8 + i] = sS[lane / 2][lane % 2 * 8 + i];  // reads s
}

TEST_F(WmmaCheck, StoreAndThenLanesRead) {
  run(store_then_lanes, {1, 32}, out_.data(), true);
  EXPECT_EQ(out_.values(), std::vector<float>(256, 1.f));
  run(store_then_lanes, {1, 32}, out_.data(), false);
  const Finding finding = only_finding(FindingKind::kSharedRace);
  EXPECT_EQ(finding.array, "sS");
  says(finding, LINE_MARKED("writes s") + "   store_matrix_sync(&sS[0][0], f, 16, mem_row_major);");
  says(finding, LINE_MARKED("reads s"));
}

__global__ void load_then_lanes(const __half* in, bool sync) {
  alignas(32) __shared__ __half tile[256];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = in[i];
  __syncwarp();
  A f;
  load_matrix_sync(f, tile, 16);  // reads it
  if (sync) __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = in[i];  // writes it again
}

TEST_F(WmmaCheck, LoadAndThenLanesWrite) {
  run(load_then_lanes, {1, 32}, in_.data(), true);
  run(load_then_lanes, {1, 32}, in_.data(), false);
  expect_lines(only_finding(FindingKind::kSharedRace), {"reads it", "writes it again"});
}

// A product does not order memory either.
__global__ void product_between(const __half* in, bool sync) {
  alignas(32) __shared__ float tile[256];
  A a;
  B b;
  Sum sum;
  fill_fragment(sum, 0.f);
  load_matrix_sync(a, in, 16);
  load_matrix_sync(b, in, 16);
  store_matrix_sync(tile, sum, 16, mem_row_major);
  mma_sync(sum, a, b, sum);
  if (sync) __syncwarp();
  store_matrix_sync(tile, sum, 16, mem_col_major);
}

TEST_F(WmmaCheck, TwoStoresToOneTile) {
  run(product_between, {1, 32}, in_.data(), true);
  run(product_between, {1, 32}, in_.data(), false);
  only_finding(FindingKind::kSharedRace);
}

// Two warps: __syncwarp() is not enough.
__global__ void other_warp_stores(float* out, bool block) {
  alignas(32) __shared__ float tile[256];
  Sum f;
  fill_fragment(f, 1.f);
  if (threadIdx.x < 32) store_matrix_sync(tile, f, 16, mem_row_major);
  if (block) __syncthreads();
  if (!block) __syncwarp();
  if (threadIdx.x >= 32) {
    load_matrix_sync(f, tile, 16, mem_row_major);
    store_matrix_sync(out, f, 16, mem_row_major);
  }
}

TEST_F(WmmaCheck, BetweenWarps) {
  run(other_warp_stores, {1, 64}, out_.data(), true);
  EXPECT_EQ(out_.values(), std::vector<float>(256, 1.f));
  run(other_warp_stores, {1, 64}, out_.data(), false);
  only_finding(FindingKind::kSharedRace);
}

// ---- Memory ------------------------------------------------------------------------------------

__global__ void load_at(const __half* in, int offset, unsigned ldm) {
  A f;
  load_matrix_sync(f, in + offset, ldm);  // loads there
}

TEST_F(WmmaCheck, Misaligned) {
  const Array<__half> in(1024, __half(1.f), "q");
  run(load_at, {1, 32}, in.data(), 16, 24u);
  Finding finding = fails(FindingKind::kMisaligned, 32, load_at, in.data(), 8, 16u);
  EXPECT_EQ(finding.location, LINE_MARKED("loads there"));
  says(finding, "q[8] (elements of 2 bytes)");
  says(finding,
       "A matrix must begin at a multiple of 32 bytes; this one begins 16 bytes after one.");

  finding = fails(FindingKind::kMisaligned, 32, load_at, in.data(), 0, 20u);
  says(finding,
       "The ldm of a matrix must be a multiple of 16 bytes, 8 elements of this type; here ");
  says(finding, "it is 20.");
  cudaGetLastError();
}

// The same for a store, and for floats.
__global__ void store_at(float* out, int offset, unsigned ldm, layout_t layout) {
  Sum f;
  fill_fragment(f, 1.f);
  store_matrix_sync(out + offset, f, ldm, layout);
}

TEST_F(WmmaCheck, MisalignedFloats) {
  const Array<float> out(1024, 0.f, "o");
  for (const layout_t layout : {mem_row_major, mem_col_major}) {
    for (const unsigned ldm : {16u, 20u, 28u}) {
      run(store_at, {1, 32}, out.data(), 8, ldm, layout);
    }
    says(fails(FindingKind::kMisaligned, 32, store_at, out.data(), 4, 16u, layout),
         "this one begins 16 bytes after one.");
    says(fails(FindingKind::kMisaligned, 32, store_at, out.data(), 0, 18u, layout),
         "16 bytes, 4 elements of this type; here it is 18.");
  }
  cudaGetLastError();
}

TEST_F(WmmaCheck, OutOfBounds) {
  const Array<__half> in(256, __half(1.f), "q");
  run(load_at, {1, 32}, in.data(), 0, 16u);
  run(load_at, {1, 32}, in.data(), 16, 16u);  // one row too far down
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.location, LINE_MARKED("loads there"));
  EXPECT_EQ(finding.count, 8u);  // pairs of the last row: those of 4 lanes in 2 blocks
  says(finding, "past the end of an allocation of 512 bytes.");
  says(finding, "  q[256] (elements of 2 bytes)\n");
}

// An accumulator of floats is stored by rows in pieces of 8 bytes; its elements have 4 bytes.
TEST_F(WmmaCheck, NamesElements) {
  void (*kernel)(float*) = [](float* out) {
    Sum f;
    fill_fragment(f, 1.f);
    store_matrix_sync(out, f, 16, mem_row_major);
  };
  const Array<float> out(256 - 16, 0.f, "o");
  run(kernel, {1, 32}, out.data());
  says(only_finding(FindingKind::kOutOfBounds), "  o[240] (elements of 4 bytes)\n");
}

__global__ void load_rows(const __half* in, int rows) {
  alignas(32) __shared__ __half tile[16][16];
  if (static_cast<int>(threadIdx.x) / 2 < rows) {
    for (int i = 0; i < 8; ++i) tile[threadIdx.x / 2][threadIdx.x % 2 * 8 + i] = in[i];
  }
  __syncwarp();
  A f;
  load_matrix_sync(f, &tile[0][0], 16);  // loads all rows
}

TEST_F(WmmaCheck, Uninitialised) {
  run(load_rows, {1, 32}, in_.data(), 16);
  run(load_rows, {1, 32}, in_.data(), 15);
  const Finding finding = only_finding(FindingKind::kUninitialised);
  EXPECT_EQ(finding.location, LINE_MARKED("loads all rows"));
  EXPECT_EQ(finding.count, 2u);  // pieces of 16 bytes
}

// ---- The whole warp ----------------------------------------------------------------------------

// A warp-wide operation that cannot begin ends the launch.
class WmmaWarp : public SimulatorTest {
 protected:
  Array<float> out_{256, 0.f};
};

__global__ void store_by(float* out, int lanes) {
  Sum f;
  fill_fragment(f, 1.f);
  if (static_cast<int>(threadIdx.x) < lanes) {
    store_matrix_sync(out, f, 16, mem_row_major);  // stores by some
  }
  __syncthreads();
}

TEST_F(WmmaWarp, HalfAWarp) {
  run(store_by, {1, 32}, out_.data(), 32);
  EXPECT_EQ(out_.values(), std::vector<float>(256, 1.f));
  run(store_by, {1, 64}, out_.data(), 32);  // the other warp does not take part
  const Finding finding = fails(FindingKind::kWarpMask, 32, store_by, out_.data(), 16);
  EXPECT_EQ(finding.location, LINE_MARKED("stores by some"));
  says(finding, "MATRIX OPERATION WITHOUT ALL LANES: ");
  says(finding, "Warp 0 lane 0 waits at " + finding.location + "   store_matrix_sync(");
  says(finding, "for lane 16, which waits in __syncthreads() at wmma_check_test.cu:");
}

TEST_F(WmmaWarp, ABlockOfHalfAWarp) {
  says(fails(FindingKind::kWarpMask, 16, store_by, out_.data(), 16),
       "for lane 16, which does not exist");
}

__global__ void some_leave(float* out, int leaver) {
  if (static_cast<int>(threadIdx.x) == leaver) return;
  Sum f;
  fill_fragment(f, 1.f);
  store_matrix_sync(out, f, 16, mem_row_major);
}

TEST_F(WmmaWarp, ALaneHasExited) {
  run(some_leave, {1, 32}, out_.data(), 32);
  const Finding finding = fails(FindingKind::kWarpMask, 32, some_leave, out_.data(), 9);
  says(finding, "for lane 9, which has exited. A matrix operation needs all 32 lanes.");
}

__global__ void two_lines(float* out, int boundary) {
  Sum f;
  fill_fragment(f, 1.f);
  if (static_cast<int>(threadIdx.x) < boundary) {
    store_matrix_sync(out, f, 16, mem_row_major);  // one line
  } else {
    store_matrix_sync(out, f, 16, mem_row_major);  // another line
  }
}

TEST_F(WmmaWarp, LanesAtDifferentLines) {
  run(two_lines, {1, 32}, out_.data(), 0);
  run(two_lines, {1, 32}, out_.data(), 32);
  const Finding finding = fails(FindingKind::kWarpMask, 32, two_lines, out_.data(), 16);
  EXPECT_EQ(finding.location, LINE_MARKED("one line"));
  says(finding, "which waits in another warp-wide operation at " + LINE_MARKED("another line"));
}

// One argument of lane 20 differs.
enum class Differs { kNothing, kPointer, kLdm, kLayout };

__global__ void differing(const float* in, Differs what) {
  Sum f;
  const Differs mine = threadIdx.x == 20 ? what : Differs::kNothing;
  const float* const from = in + (mine == Differs::kPointer ? 256 : 0);
  const unsigned ldm = mine == Differs::kLdm ? 32 : 16;
  const layout_t layout = mine == Differs::kLayout ? mem_col_major : mem_row_major;
  load_matrix_sync(f, from, ldm, layout);  // differs
}

TEST_F(WmmaWarp, LanesNameDifferentMatrices) {
  const Array<float> in(1024, 1.f);
  run(differing, {1, 32}, in.data(), Differs::kNothing);
  for (const Differs what : {Differs::kPointer, Differs::kLdm, Differs::kLayout}) {
    const Finding finding = fails(FindingKind::kWarpMask, 32, differing, in.data(), what);
    EXPECT_EQ(finding.location, LINE_MARKED("differs"));
    says(finding, "LANES PASS DIFFERENT MATRICES");
    says(finding, "Warp 0 lanes 0 and 20 at " + finding.location);
    says(finding, "All 32 lanes must pass the same pointer, ldm and layout.");
  }
}

}  // namespace
}  // namespace cuflash::simt
