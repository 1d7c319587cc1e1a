// Reductions: what they read and when, what they add to and when. Planted faults, each with its
// correct twin.
#include "device/ptx/bulk_reduce.h"
#include "device/ptx/tensor_copy.h"
#include "support.h"

namespace cuflash::simt {
namespace {

constexpr int kFloats = 256, kTiles = 5, kThreads = 64;

class BulkReduceTest : public AccessTest {
 protected:
  void clear() { sums_.set(std::vector<float>(kTiles * kFloats)); }
  Array<float> sums_{kTiles * kFloats, 0.0f, "sums"};
  Array<float> out_{1024, 0.0f, "out"};
};

// ---- The source --------------------------------------------------------------------------------

enum class Source { kRight, kNotFenced, kNoBarrier, kNotCommitted, kTooFewAwaited, kNeverAwaited };

// All threads fill a buffer, the first has it added. Two buffers take turns.
__global__ void add_tiles(float* sums, int tiles, Source how) {
  __shared__ __align__(16) float terms[2][kFloats];
  const int t = threadIdx.x;
  for (int n = 0; n < tiles; ++n) {
    if (t == 0 && how == Source::kTooFewAwaited) ptx::tensor_store_wait_read<2>();
    if (t == 0 && how != Source::kTooFewAwaited) ptx::tensor_store_wait_read<1>();
    __syncthreads();
    for (int i = t; i < kFloats; i += kThreads) terms[n % 2][i] = 1000 * n + i;  // fills
    if (how != Source::kNotFenced) ptx::fence_proxy_async();
    if (how != Source::kNoBarrier) __syncthreads();
    if (t != 0) continue;
    ptx::bulk_reduce_add(sums + n * kFloats, terms[n % 2], sizeof terms[0]);  // adds
    if (how != Source::kNotCommitted) ptx::tensor_store_commit();
  }
  if (t == 0 && how != Source::kNeverAwaited) ptx::tensor_store_wait_read<0>();
}

// The blocks add to the same floats.
TEST_F(BulkReduceTest, TwoBuffersTakeTurns) {
  constexpr int kBlocks = 3;
  under_all_schedules([&] {
    clear();
    run(add_tiles, {kBlocks, kThreads}, sums_.data(), kTiles, Source::kRight);
    const std::vector<float> sums = sums_.values();
    for (int i = 0; i < kTiles * kFloats; ++i) {
      ASSERT_EQ(sums[i], kBlocks * (1000 * (i / kFloats) + i % kFloats)) << i;
    }
    no_findings();
  });
}

TEST_F(BulkReduceTest, TheSourceMustBeThere) {
  under_all_schedules([&] {
    run(add_tiles, {1, kThreads}, sums_.data(), 1, Source::kNotFenced);
    expect_report(only_finding(FindingKind::kAsyncCopy), "WRITE WITHOUT A PROXY FENCE", "adds",
                  {"fills"});
    run(add_tiles, {1, kThreads}, sums_.data(), 1, Source::kNoBarrier);
    expect_one_of({"RACE in shared memory", "SOURCE OF A STORE OVERWRITTEN"}, {"adds"});
  });
}

TEST_F(BulkReduceTest, TheSourceMustStay) {
  under_all_schedules([&] {
    for (const Source how : {Source::kTooFewAwaited, Source::kNotCommitted}) {
      run(add_tiles, {1, kThreads}, sums_.data(), 3, how);
      EXPECT_TRUE(finds("SOURCE OF A STORE OVERWRITTEN", {"adds", "fills"}));
    }
    run(add_tiles, {1, kThreads}, sums_.data(), 1, Source::kNeverAwaited);
    expect_report(only_finding(FindingKind::kAsyncCopy), "STORE WITHOUT A WAIT", "adds");
  });
}

// ---- The sums ----------------------------------------------------------------------------------

enum class Sums { kRight, kOnlyRead, kNotAwaited, kOverwritten, kAtomics, kTwice };

// Threads read what a reduction has added to.
__global__ void read_back(float* sums, float* out, Sums how) {
  __shared__ __align__(16) float terms[kFloats];
  const int t = threadIdx.x;
  for (int i = t; i < kFloats; i += kThreads) terms[i] = i;
  ptx::fence_proxy_async();
  __syncthreads();
  if (t == 0) {
    ptx::bulk_reduce_add(sums, terms, sizeof terms);                           // adds them
    if (how == Sums::kTwice) ptx::bulk_reduce_add(sums, terms, sizeof terms);  // adds them again
    ptx::tensor_store_commit();
  }
  if (how == Sums::kOverwritten) sums[t] = 1;  // overwrites them
  if (how == Sums::kAtomics) atomicAdd(&sums[t], 1.0f);
  if (t == 0 && how == Sums::kOnlyRead) ptx::tensor_store_wait_read<0>();
  if (t == 0 && how != Sums::kOnlyRead && how != Sums::kNotAwaited) ptx::tensor_store_wait<0>();
  __syncthreads();
  if (how != Sums::kOverwritten) out[t] = sums[t];  // reads them
  if (t == 0) ptx::tensor_store_wait_read<0>();
}

TEST_F(BulkReduceTest, ItsEndMustBeAwaited) {
  under_all_schedules([&] {
    for (const Sums how : {Sums::kRight, Sums::kAtomics, Sums::kTwice}) {
      clear();
      run(read_back, {1, kThreads}, sums_.data(), out_.data(), how);
      EXPECT_EQ(out_.values()[63], how == Sums::kRight ? 63 : how == Sums::kAtomics ? 64 : 126);
      no_findings();
    }
    for (const Sums how : {Sums::kOnlyRead, Sums::kNotAwaited}) {
      clear();
      run(read_back, {1, kThreads}, sums_.data(), out_.data(), how);
      const Finding finding = only_finding(FindingKind::kAsyncCopy);
      expect_report(finding, "READ OF A STORE IN FLIGHT", "reads them", {"adds them"});
      EXPECT_EQ(finding.array, "sums");
      EXPECT_EQ(out_.values()[63], 0);
    }
    run(read_back, {1, kThreads}, sums_.data(), out_.data(), Sums::kOverwritten);
    EXPECT_TRUE(finds("WRITE OVER A STORE IN FLIGHT", {"adds them", "overwrites them"}));
    // Another block may not read what this one adds to.
    run(read_back, {2, kThreads}, sums_.data(), out_.data(), Sums::kRight);
    bool race = false;
    for (const Finding& finding : take_findings()) {
      race |= finding.kind() == FindingKind::kGlobalRace && finding.array == "sums";
    }
    EXPECT_TRUE(race);
  });
}

TEST_F(BulkReduceTest, TheSumsMustHaveAValue) {
  Array<float> sums(kFloats, "no value");
  run(add_tiles, {1, kThreads}, sums.data(), 1, Source::kRight);
  const Finding finding = only_finding(FindingKind::kUninitialised);
  EXPECT_EQ(finding.array, "no value");
  EXPECT_EQ(finding.location, LINE_MARKED("adds"));
}

// ---- Bounds and counts -------------------------------------------------------------------------

__global__ void add_some(float* sums, int first, int bytes) {
  __shared__ __align__(16) float terms[kFloats];
  for (int i = threadIdx.x; i < kFloats; i += 32) terms[i] = 1;
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x != 0) return;
  ptx::bulk_reduce_add(sums, terms + first, bytes);  // adds some
  ptx::tensor_store_commit();
  ptx::tensor_store_wait_read<0>();
}

TEST_F(BulkReduceTest, ItsBytesAreReadAndWritten) {
  reset_counts();
  run(add_some, {2, 32}, sums_.data(), 0, kFloats * 4);
  const Counts sum = counts();
  EXPECT_EQ(sum.global_read_bytes, 2u * kFloats * 4);
  EXPECT_EQ(sum.global_write_bytes, 2u * kFloats * 4);
  EXPECT_EQ(sum.global_write_sectors, 2u * kFloats * 4 / 32);
  EXPECT_EQ(sum.global_write_requests, 2u);
  EXPECT_EQ(sum.shared_read_bytes, 0u);
}

TEST_F(BulkReduceTest, AddressesAndSizeAreChecked) {
  const auto fault = [&](FindingKind kind, float* sums, int first, int bytes) {
    EXPECT_EQ(fails(kind, 32, add_some, sums, first, bytes).location, LINE_MARKED("adds some"));
  };
  fault(FindingKind::kMisaligned, sums_.data() + 1, 0, 64);
  fault(FindingKind::kMisaligned, sums_.data(), 1, 64);
  fault(FindingKind::kMisaligned, sums_.data(), 0, 24);
  fault(FindingKind::kOutOfBounds, sums_.data(), 16, kFloats * 4);
  run(add_some, {1, 32}, sums_.data() + kTiles * kFloats - 4, 0, 32);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.array, "sums");
  EXPECT_EQ(finding.location, LINE_MARKED("adds some"));
}

}  // namespace
}  // namespace cuflash::simt
