// cp.async: what happens between a copy's begin and its wait. Planted faults, each with its correct
// twin.
#include "device/ptx/cp_async.h"
#include "device/ptx/ldmatrix.h"
#include "support.h"

namespace cuflash::simt {
namespace {

constexpr int kThreads = 64;

class CpAsync : public AccessTest {
 protected:
  CpAsync() {
    std::vector<float> values;
    for (int i = 0; i < 4 * kThreads; ++i) values.push_back(static_cast<float>(i));
    in_.set(values);
  }
  Array<float> in_{4 * kThreads, "in"}, out_{4 * kThreads, 0.f, "out"};
};

// ---- The wait ----------------------------------------------------------------------------------

enum class Wait { kRight, kNone, kNotCommitted, kTooFew };

__global__ void copy_and_read(const float* in, float* out, Wait wait) {
  __shared__ float4 sK[kThreads], sV[kThreads];
  const int t = threadIdx.x;
  ptx::cp_async_16(&sK[t], &in[4 * t]);  // copies k
  if (wait != Wait::kNotCommitted) ptx::cp_async_commit();
  if (wait == Wait::kTooFew) {
    ptx::cp_async_16(&sV[t], &in[4 * t]);
    ptx::cp_async_commit();
    ptx::cp_async_wait<2>();
  } else if (wait != Wait::kNone) {
    ptx::cp_async_wait<0>();
  }
  out[t] = sK[t].x;  // reads k
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
}

TEST_F(CpAsync, ArrivesAtTheWait) {
  under_all_schedules([&] {
    run(copy_and_read, {1, kThreads}, in_.data(), out_.data(), Wait::kRight);
    EXPECT_EQ(out_.values()[63], 252.f);
    no_findings();
    run(copy_and_read, {1, kThreads}, in_.data(), out_.data(), Wait::kNone);
    EXPECT_NE(out_.values()[63], 252.f);
    const Finding finding = only_finding(FindingKind::kAsyncCopy);
    expect_report(finding, "READ OF A COPY IN FLIGHT", "reads k");
    EXPECT_EQ(finding.array, "sK");
    EXPECT_EQ(finding.count, kThreads);
    says(finding, "write  warp ");
    says(finding, LINE_MARKED("copies k") + "   ptx::cp_async_16(&sK[t], &in[4 * t]);");
    says(finding, LINE_MARKED("reads k") + "   out[t] = sK[t].x;");
    says(finding,
         "Its thread committed 0 groups after it: cp_async_wait<0>() just before this would end "
         "it.");
  });
}

TEST_F(CpAsync, AGroupMustBeCommitted) {
  run(copy_and_read, {1, kThreads}, in_.data(), out_.data(), Wait::kNotCommitted);
  says(only_finding(FindingKind::kAsyncCopy), "its thread has not committed its group");
}

TEST_F(CpAsync, TooManyGroupsMayBePending) {
  run(copy_and_read, {1, kThreads}, in_.data(), out_.data(), Wait::kTooFew);
  says(only_finding(FindingKind::kAsyncCopy),
       "Its thread committed 1 group after it: cp_async_wait<1>() just before this would end it.");
}

// What the destination held is gone when the copy begins, even if nobody checks accesses.
class CpAsyncValues : public SimulatorTest {};

__global__ void look_too_early(const float* in, unsigned* out) {
  __shared__ uint4 tile[1];
  tile[0] = {5, 5, 5, 5};
  ptx::cp_async_16(&tile[0], in);
  ptx::cp_async_commit();
  out[0] = tile[0].x;
  ptx::cp_async_wait<0>();
  out[1] = tile[0].x;
}

TEST_F(CpAsyncValues, AreNotNumbersUntilTheWait) {
  const Array<float> in(4, 1.f);
  const Array<unsigned> out(2);
  run(look_too_early, {1, 1}, in.data(), out.data());
  EXPECT_EQ(out.values(), (std::vector<unsigned>{0xffffffff, 0x3f800000}));
  EXPECT_EQ(take_findings().size(), counts_accesses() ? 1u : 0u);
}

__global__ void never_waits(const float* in, bool wait) {
  __shared__ float4 tile[kThreads];
  ptx::cp_async_16(&tile[threadIdx.x], &in[4 * threadIdx.x]);  // copies in vain
  ptx::cp_async_commit();
  if (wait) ptx::cp_async_wait<0>();
}

TEST_F(CpAsyncValues, AKernelMustWaitBeforeItsEnd) {
  const Array<float> in(4 * kThreads, 1.f);
  run(never_waits, {2, kThreads}, in.data(), true);
  run(never_waits, {2, kThreads}, in.data(), false);
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  expect_report(finding, "COPY WITHOUT A WAIT", "copies in vain");
  EXPECT_EQ(finding.count, 2u * kThreads);
}

// A block does not inherit the copies of the one before.
__global__ void only_block_0_forgets(const float* in, float* out) {
  __shared__ float tile[4 * kThreads];
  const int t = threadIdx.x;
  tile[4 * t] = 1.f;
  if (blockIdx.x == 0) {
    ptx::cp_async_16(&tile[4 * t], &in[4 * t]);
  } else {
    out[t] = tile[4 * t];
  }
}

TEST_F(CpAsync, EndsWithTheBlock) {
  run(only_block_0_forgets, {2, kThreads}, in_.data(), out_.data());
  EXPECT_EQ(only_finding(FindingKind::kAsyncCopy).title(), "COPY WITHOUT A WAIT");
  EXPECT_EQ(out_.values()[5], 1.f);
}

// ---- Other threads -----------------------------------------------------------------------------

// The wait makes a copy visible to its own thread. A barrier must follow it.
enum class Barrier { kAfterWait, kBeforeWait, kOfTheWarp };

__global__ void read_before_me(const float* in, float* out, Barrier barrier) {
  __shared__ float4 sK[kThreads];
  const int t = threadIdx.x;
  ptx::cp_async_16(&sK[t], &in[4 * t]);  // copies for all
  ptx::cp_async_commit();
  if (barrier == Barrier::kBeforeWait) __syncthreads();
  ptx::cp_async_wait<0>();
  if (barrier == Barrier::kAfterWait) __syncthreads();
  if (barrier == Barrier::kOfTheWarp) __syncwarp();
  if (t % 32 > 0) out[t] = sK[t - 1].y;  // reads before me
}

TEST_F(CpAsync, OtherThreadsNeedABarrierAfterTheWait) {
  under_all_schedules([&] {
    for (const Barrier barrier : {Barrier::kAfterWait, Barrier::kOfTheWarp}) {
      run(read_before_me, {1, kThreads}, in_.data(), out_.data(), barrier);
      EXPECT_EQ(out_.values()[63], 249.f);
      no_findings();
    }
    run(read_before_me, {1, kThreads}, in_.data(), out_.data(), Barrier::kBeforeWait);
    // It depends on the schedule whether a read meets the copy or comes after it.
    expect_one_of({"RACE in shared memory", "READ OF A COPY IN FLIGHT"},
                  {"copies for all", "reads before me"});
  });
  set_schedule({});
  run(read_before_me, {1, kThreads}, in_.data(), out_.data(), Barrier::kBeforeWait);
  const Finding finding = only_finding(FindingKind::kSharedRace);
  says(finding, "orders " + LINE_NUMBER("copies for all") + " before " +
                    LINE_NUMBER("reads before me") +
                    ". The barrier must follow the wait for the copy.");
}

// The other warp may still read the tile that the next copy replaces.
__global__ void pipeline(const float* in, float* out, bool sync) {
  __shared__ float4 sK[kThreads];
  const int t = threadIdx.x;
  float sum = 0.f;
  for (int tile = 0; tile < 3; ++tile) {
    ptx::cp_async_16(&sK[t], &in[4 * t]);  // replaces
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    __syncthreads();
    sum += sK[kThreads - 1 - t].x;  // still reads
    if (sync) __syncthreads();
  }
  out[t] = sum;
}

TEST_F(CpAsync, MustNotReplaceWhatIsStillRead) {
  under_all_schedules([&] {
    run(pipeline, {1, kThreads}, in_.data(), out_.data(), true);
    EXPECT_EQ(out_.values()[0], 3 * 252.f);
    no_findings();
    run(pipeline, {1, kThreads}, in_.data(), out_.data(), false);
    expect_one_of({"RACE in shared memory"}, {"replaces", "still reads"});
  });
}

// Two buffers; a group that is empty at the end keeps the count of pending groups right.
__global__ void two_buffers(const float* in, float* out) {
  __shared__ float4 sK[2][kThreads];
  const int t = threadIdx.x;
  constexpr int kTiles = 4;
  ptx::cp_async_16(&sK[0][t], &in[4 * t]);
  ptx::cp_async_commit();
  float sum = 0.f;
  for (int tile = 0; tile < kTiles; ++tile) {
    if (tile + 1 < kTiles) ptx::cp_async_16(&sK[(tile + 1) % 2][t], &in[4 * t]);
    ptx::cp_async_commit();
    ptx::cp_async_wait<1>();
    __syncthreads();
    sum += sK[tile % 2][kThreads - 1 - t].x;
    __syncthreads();
  }
  out[t] = sum;
}

TEST_F(CpAsync, DoubleBuffering) {
  under_all_schedules([&] {
    run(two_buffers, {1, kThreads}, in_.data(), out_.data());
    EXPECT_EQ(out_.values()[0], 4 * 252.f);
  });
}

__global__ void copy_for_ldmatrix(const float* in, unsigned* out, bool wait) {
  __shared__ float4 tile[32];
  const int lane = threadIdx.x;
  ptx::cp_async_16(&tile[lane], &in[4 * lane]);  // copies rows
  ptx::cp_async_commit();
  if (wait) ptx::cp_async_wait<0>();
  __syncwarp();
  unsigned r[4];
  ptx::ldmatrix_x4(r, &tile[lane]);  // loads rows
  out[lane] = r[0];
  ptx::cp_async_wait<0>();
}

TEST_F(CpAsync, LdmatrixMeetsACopy) {
  const Array<unsigned> out(32);
  run(copy_for_ldmatrix, {1, 32}, in_.data(), out.data(), true);
  run(copy_for_ldmatrix, {1, 32}, in_.data(), out.data(), false);
  expect_report(only_finding(FindingKind::kAsyncCopy), "", "loads rows", {"copies rows"});
}

// ---- Writes while a copy is in flight ----------------------------------------------------------

__global__ void overwrite_destination(const float* in, float* out, bool wait_first) {
  __shared__ float tile[4 * kThreads];
  const int t = threadIdx.x;
  ptx::cp_async_16(&tile[4 * t], &in[4 * t]);  // copies into tile
  ptx::cp_async_commit();
  if (wait_first) ptx::cp_async_wait<0>();
  tile[4 * t + 2] = 7.f;  // overwrites
  ptx::cp_async_wait<0>();
  out[t] = tile[4 * t + 2];
}

TEST_F(CpAsync, DestinationOverwritten) {
  run(overwrite_destination, {1, kThreads}, in_.data(), out_.data(), true);
  EXPECT_EQ(out_.values()[1], 7.f);
  no_findings();
  run(overwrite_destination, {1, kThreads}, in_.data(), out_.data(), false);
  EXPECT_EQ(out_.values()[1], 6.f);
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  expect_report(finding, "WRITE OVER A COPY IN FLIGHT", "overwrites", {"copies into tile"});
  says(finding, "  tile[2] (elements of 4 bytes)\n");
}

// A write beside the destination is no fault, nor is one before the copy.
__global__ void write_beside(const float* in, float* out) {
  __shared__ float tile[8 * kThreads];
  const int t = threadIdx.x;
  tile[8 * t + 3] = 1.f;
  ptx::cp_async_16(&tile[8 * t], &in[4 * t]);
  ptx::cp_async_commit();
  tile[8 * t + 4] = 2.f;
  out[t] = tile[8 * t + 4];
  ptx::cp_async_wait<0>();
  out[kThreads + t] = tile[8 * t + 3];
}

TEST_F(CpAsync, WritesBesideAndBefore) {
  run(write_beside, {1, kThreads}, in_.data(), out_.data());
  EXPECT_EQ(out_.values()[1], 2.f);
  EXPECT_EQ(out_.values()[kThreads + 1], 7.f);
}

__global__ void copy_twice(const float* in, float* out, bool wait_first) {
  __shared__ float4 tile[kThreads];
  const int t = threadIdx.x;
  ptx::cp_async_16(&tile[t], &in[0]);  // copies once
  ptx::cp_async_commit();
  if (wait_first) ptx::cp_async_wait<0>();
  ptx::cp_async_16(&tile[t], &in[4 * t]);  // copies twice
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  out[t] = tile[t].x;
}

TEST_F(CpAsync, TwoCopiesToOnePlace) {
  run(copy_twice, {1, kThreads}, in_.data(), out_.data(), true);
  EXPECT_EQ(out_.values()[2], 8.f);
  no_findings();
  run(copy_twice, {1, kThreads}, in_.data(), out_.data(), false);
  expect_report(only_finding(FindingKind::kAsyncCopy), "WRITE OVER A COPY IN FLIGHT",
                "copies twice", {"copies once"});
}

__global__ void overwrite_source(float* in, float* out, bool wait_first) {
  __shared__ float4 tile[kThreads];
  const int t = threadIdx.x;
  in[4 * t] = 1.f;
  ptx::cp_async_16(&tile[t], &in[4 * t]);  // copies from in
  ptx::cp_async_commit();
  if (wait_first) ptx::cp_async_wait<0>();
  in[4 * t] = 2.f;  // overwrites in
  ptx::cp_async_wait<0>();
  out[t] = tile[t].x;
}

TEST_F(CpAsync, SourceOverwritten) {
  run(overwrite_source, {1, kThreads}, in_.data(), out_.data(), true);
  EXPECT_EQ(out_.values()[2], 1.f);
  no_findings();
  run(overwrite_source, {1, kThreads}, in_.data(), out_.data(), false);
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  expect_report(finding, "SOURCE OF A COPY OVERWRITTEN", "overwrites in");
  EXPECT_EQ(finding.array, "in");
  says(finding, "read   warp 0 lane 0   " + LINE_MARKED("copies from in"));
  says(finding, "write  warp 0 lane 0   " + LINE_MARKED("overwrites in"));
}

// The line that overwrites comes before the copy's, in the loop's next step.
__global__ void overwrite_in_a_loop(float* in, float* out, bool wait_inside) {
  __shared__ float4 tile[2][kThreads];
  const int t = threadIdx.x;
  for (int step = 0; step < 2; ++step) {
    in[4 * t] = step;                              // comes before
    ptx::cp_async_16(&tile[step][t], &in[4 * t]);  // comes after
    ptx::cp_async_commit();
    if (wait_inside) ptx::cp_async_wait<0>();
  }
  ptx::cp_async_wait<0>();
  out[t] = tile[0][t].x;
}

TEST_F(CpAsync, SourceOverwrittenByAnEarlierLine) {
  run(overwrite_in_a_loop, {1, kThreads}, in_.data(), out_.data(), true);
  EXPECT_EQ(out_.values()[2], 0.f);
  no_findings();
  run(overwrite_in_a_loop, {1, kThreads}, in_.data(), out_.data(), false);
  EXPECT_EQ(only_finding(FindingKind::kAsyncCopy).location, LINE_MARKED("comes before"));
}

// Barriers order the other warp's write after the copy's begin, and before its wait or not at all.
enum class Writes { kAfterWait, kBeforeWait, kBesideWait };

__global__ void others_overwrite_source(float* in, float* out, Writes when) {
  __shared__ float4 tile[32];
  const int lane = threadIdx.x % 32;
  const bool copies = threadIdx.x < 32;
  if (copies) ptx::cp_async_16(&tile[lane], &in[4 * lane]);  // copies in
  ptx::cp_async_commit();
  if (when == Writes::kAfterWait) ptx::cp_async_wait<0>();
  __syncthreads();
  if (!copies) in[4 * lane] = 2.f;  // changes in
  if (when == Writes::kBeforeWait) __syncthreads();
  ptx::cp_async_wait<0>();
  if (copies) out[lane] = tile[lane].x;
}

TEST_F(CpAsync, SourceOverwrittenByOthers) {
  under_all_schedules([&] {
    run(others_overwrite_source, {1, 64}, in_.data(), out_.data(), Writes::kAfterWait);
    no_findings();
    run(others_overwrite_source, {1, 64}, in_.data(), out_.data(), Writes::kBeforeWait);
    Finding finding = only_finding(FindingKind::kAsyncCopy);
    expect_report(finding, "", "changes in", {"copies in"});
    run(others_overwrite_source, {1, 64}, in_.data(), out_.data(), Writes::kBesideWait);
    expect_lines(only_finding(FindingKind::kGlobalRace), {"copies in", "changes in"});
  });
}

}  // namespace
}  // namespace cuflash::simt
