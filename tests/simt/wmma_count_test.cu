// The counts of nvcuda::wmma, worked out by hand.
//
// A matrix of 16-bit elements moves in blocks of 8 lines of 16 bytes: one wavefront each, if no two
// lines want different words of one bank.
#include <mma.h>

#include "support.h"

namespace cuflash::simt {
namespace {

using namespace nvcuda::wmma;

using A = fragment<matrix_a, 16, 16, 16, __half, row_major>;
using ATurned = fragment<matrix_a, 16, 16, 16, __half, col_major>;
using B = fragment<matrix_b, 16, 16, 16, __half, row_major>;
using Bfloat16A = fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major>;
using TallA = fragment<matrix_a, 32, 8, 16, __half, row_major>;
using NarrowB = fragment<matrix_b, 32, 8, 16, __half, row_major>;
using Sum = fragment<accumulator, 16, 16, 16, float>;
using HalfSum = fragment<accumulator, 16, 16, 16, __half>;
using WideSum = fragment<accumulator, 8, 32, 16, float>;

class WmmaCount : public AccessTest {};

// The shared memory that a matrix of the kernels below can touch.
constexpr int kElements = 16 * 72;

template <class Fragment>
__global__ void load_shared(unsigned ldm) {
  alignas(128) __shared__ typename Fragment::element_type tile[kElements];
  for (int i = threadIdx.x; i < kElements; i += 32) tile[i] = 1.f;
  __syncwarp();
  Fragment f;
  load_matrix_sync(f, tile, ldm);  // loads shared
}

template <class Fragment>
LineCounts count_load(unsigned ldm) {
  reset_counts();
  run(load_shared<Fragment>, {1, 32}, ldm);
  return counts_of_line(LINE_NUMBER("loads shared"), true, false);
}

void expect(const LineCounts& counts, std::uint64_t requests, std::uint64_t bytes,
            std::uint64_t wavefronts, std::uint64_t conflicts) {
  EXPECT_EQ(counts.requests, requests);
  EXPECT_EQ(counts.bytes, bytes);
  EXPECT_EQ(counts.wavefronts, wavefronts);
  EXPECT_EQ(counts.conflicts, conflicts);
}

// One instruction reads four blocks, 512 bytes.
TEST_F(WmmaCount, HalfFromSharedMemory) {
  {
    SCOPED_TRACE("rows of 144 bytes: lines begin in banks 0, 4, 8 ... 28");
    expect(count_load<A>(72), 1, 512, 4, 0);
  }
  {
    SCOPED_TRACE("rows of 128 bytes: all lines of a block want the same 4 banks");
    expect(count_load<A>(64), 1, 512, 32, 28);
  }
  {
    SCOPED_TRACE("rows of 32 bytes: lines begin in banks 0, 8, 16, 24, 0 ... 24");
    expect(count_load<A>(16), 1, 512, 8, 4);
  }
}

// Turning a block during the load costs nothing: its lines are the same bytes in memory.
TEST_F(WmmaCount, LayoutDoesNotMatter) {
  expect(count_load<ATurned>(72), 1, 512, 4, 0);
  expect(count_load<ATurned>(64), 1, 512, 32, 28);
  expect(count_load<B>(72), 1, 512, 4, 0);
  expect(count_load<B>(64), 1, 512, 32, 28);
}

// 32 x 16 is eight blocks, two instructions; 16 x 8 is two blocks, addressed by 16 lanes.
TEST_F(WmmaCount, OtherShapes) {
  expect(count_load<TallA>(24), 2, 1024, 8, 0);  // 48 bytes: banks 0, 12, 24, 4, 16, 28, 8, 20
  expect(count_load<NarrowB>(24), 1, 256, 2, 0);
}

// Four instructions of 4 bytes per lane, a block each: as many wavefronts, four times the requests.
TEST_F(WmmaCount, Bfloat16FromSharedMemory) {
  expect(count_load<Bfloat16A>(72), 4, 512, 4, 0);
  expect(count_load<Bfloat16A>(64), 4, 512, 32, 28);
}

template <class Fragment>
__global__ void store_shared(unsigned ldm, bool rows) {
  alignas(128) __shared__ typename Fragment::element_type tile[32 * 32];
  Fragment f;
  fill_fragment(f, typename Fragment::element_type(1.f));
  store_matrix_sync(tile, f, ldm, rows ? mem_row_major : mem_col_major);  // stores shared
}

template <class Fragment>
LineCounts count_store(unsigned ldm, bool rows) {
  reset_counts();
  run(store_shared<Fragment>, {1, 32}, ldm, rows);
  return counts_of_line(LINE_NUMBER("stores shared"), true, true);
}

// Rows: 4 instructions of 8 bytes per lane. A half warp writes 4 lines of 32 bytes, 8 banks each;
// an instruction takes at least 2 wavefronts.
TEST_F(WmmaCount, FloatsByRow) {
  expect(count_store<Sum>(24, true), 4, 1024, 8, 0);   // lines begin in banks 0, 24, 16, 8
  expect(count_store<Sum>(16, true), 4, 1024, 16, 8);  // 0, 16, 0, 16: two turns
  expect(count_store<Sum>(32, true), 4, 1024, 32, 24);
}

// Columns: 8 instructions of 4 bytes. Each writes 8 neighbours of columns 0, 2, 4 and 6, or of the
// four between.
TEST_F(WmmaCount, FloatsByColumn) {
  expect(count_store<Sum>(20, false), 8, 1024, 8, 0);    // columns begin in banks 0, 8, 16, 24
  expect(count_store<Sum>(16, false), 8, 1024, 32, 24);  // all in bank 0: four turns
}

// 8 x 32 is computed as its transpose, 32 x 8: rows and columns change places.
TEST_F(WmmaCount, FloatsOfAWideAccumulator) {
  EXPECT_EQ(count_store<WideSum>(32, true).requests, 8u);
  EXPECT_EQ(count_store<WideSum>(8, false).requests, 4u);
}

TEST_F(WmmaCount, HalfAccumulator) {
  expect(count_store<HalfSum>(24, true), 4, 512, 4, 0);  // as 48 bytes above
  expect(count_store<HalfSum>(24, false), 4, 512, 4, 0);
}

__global__ void through_global(const __half* a, float* d) {
  A f;
  load_matrix_sync(f, a, 64);  // loads global
  Sum sum;
  fill_fragment(sum, 0.f);
  store_matrix_sync(d, sum, 64, mem_row_major);  // stores global
}

TEST_F(WmmaCount, GlobalMemory) {
  const Array<__half> a(16 * 64, __half(1.f));
  const Array<float> d(16 * 64);
  run(through_global, {1, 32}, a.data(), d.data());
  const LineCounts load = counts_of_line(LINE_NUMBER("loads global"), false, false);
  EXPECT_EQ(load.requests, 4u);  // a block each
  EXPECT_EQ(load.bytes, 512u);
  EXPECT_EQ(load.sectors, 32u);  // each time half a sector of 8 rows
  const LineCounts store = counts_of_line(LINE_NUMBER("stores global"), false, true);
  EXPECT_EQ(store.requests, 4u);
  EXPECT_EQ(store.bytes, 1024u);
  EXPECT_EQ(store.sectors, 32u);  // each time a whole sector of 8 rows
  EXPECT_EQ(line_counts().size(), 2u);
}

}  // namespace
}  // namespace cuflash::simt
