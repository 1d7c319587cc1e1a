// Named barriers: order, and who must come. Planted faults, each with its correct twin.
#include "device/ptx/named_barrier.h"
#include "support.h"

namespace cuflash::simt {
namespace {

class NamedBarrierTest : public AccessTest {
 protected:
  Array<int> out_{1024, 0, "out"};
};

// ---- Order -------------------------------------------------------------------------------------

enum class Syncs { kRight, kOneTooFew, kOtherBarrier, kNone };

// Warps 0 and 1 hand values to warps 2 and 3; warp 4 does not take part.
__global__ void hand_over(int* out, Syncs how) {
  __shared__ int tile[64];
  const int t = threadIdx.x, warp = t / 32;
  if (warp == 4) return;
  if (warp < 2) tile[t] = t;  // fills
  if (how == Syncs::kRight) ptx::named_barrier_sync(1, 128);
  if (how == Syncs::kOneTooFew && warp != 1) ptx::named_barrier_sync(1, 96);
  if (how == Syncs::kOtherBarrier) ptx::named_barrier_sync(1 + warp % 2, 64);
  if (warp >= 2) out[t] = tile[127 - t];  // takes
}

TEST_F(NamedBarrierTest, OrdersWhoComes) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    run(hand_over, {1, 160}, out_.data(), Syncs::kRight);
    EXPECT_EQ(out_.values()[64], 63);
    for (const Finding& finding : take_findings()) ADD_FAILURE() << finding.message();
    for (const Syncs how : {Syncs::kOneTooFew, Syncs::kOtherBarrier, Syncs::kNone}) {
      run(hand_over, {1, 160}, out_.data(), how);
      bool race = false;
      for (const Finding& finding : take_findings()) {
        race |= finding.kind == FindingKind::kSharedRace;
        if (finding.kind != FindingKind::kSharedRace) continue;
        says(finding, LINE_MARKED("fills"));
        says(finding, LINE_MARKED("takes"));
      }
      EXPECT_TRUE(race);
    }
  }
}

// Two warps overwrite a tile by turns.
__global__ void take_turns(int* out, bool both_ways) {
  __shared__ int tile[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int n = 0; n < 9; ++n) {
    if (warp == n % 2) tile[lane] = n;  // writes
    ptx::named_barrier_sync(3, 64);
    if (warp != n % 2) out[lane] = tile[31 - lane];  // reads
    if (both_ways) ptx::named_barrier_sync(4, 64);
  }
}

TEST_F(NamedBarrierTest, OrdersReadersBeforeWriters) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    run(take_turns, {1, 64}, out_.data(), true);
    EXPECT_EQ(out_.values()[0], 8);
    for (const Finding& finding : take_findings()) ADD_FAILURE() << finding.message();
    run(take_turns, {1, 64}, out_.data(), false);
    const Finding finding = only_finding(FindingKind::kSharedRace);
    says(finding, LINE_MARKED("writes"));
    says(finding, LINE_MARKED("reads"));
  }
}

// ---- Who comes ---------------------------------------------------------------------------------

enum class Comes { kAll, kHalfAWarp, kOtherSize, kTooFew, kSomeAtSyncthreads };

__global__ void meet(Comes who, int barrier, int threads) {
  const int warp = threadIdx.x / 32;
  if (who == Comes::kHalfAWarp && threadIdx.x % 32 < 16) return;
  if (who == Comes::kTooFew && warp == 1) return;
  if (who == Comes::kSomeAtSyncthreads && warp == 1) __syncthreads();
  if (who == Comes::kOtherSize && warp == 1) threads += 32;
  ptx::named_barrier_sync(barrier, threads);  // waits for some
}

TEST_F(NamedBarrierTest, TheRightThreadsMustCome) {
  run(meet, {2, 64}, Comes::kAll, 15, 64);
  ASSERT_TRUE(take_findings().empty());
  const auto fails = [&](Comes who, int barrier, int threads) {
    return AccessTest::fails(FindingKind::kDivergentBarrier, 64, meet, who, barrier, threads);
  };
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    EXPECT_EQ(fails(Comes::kHalfAWarp, 1, 32).title, "NAMED BARRIER WITHOUT A WHOLE WARP");
    EXPECT_EQ(fails(Comes::kOtherSize, 1, 64).title, "NAMED BARRIER OF TWO SIZES");
    for (const Comes who : {Comes::kTooFew, Comes::kSomeAtSyncthreads}) {
      const Finding finding = fails(who, 1, 64);
      EXPECT_EQ(finding.title, "DEADLOCK AT A NAMED BARRIER");
      says(finding, LINE_MARKED("waits for some"));
      says(finding, "at barrier 1: 32 of 64 threads");
    }
  }
  for (const int barrier : {0, 16, -1}) {
    EXPECT_EQ(fails(Comes::kAll, barrier, 64).title, "NAMED BARRIER OUT OF RANGE");
  }
  for (const int threads : {0, 40}) {
    EXPECT_EQ(fails(Comes::kAll, 1, threads).title, "NAMED BARRIER OUT OF RANGE");
  }
}

}  // namespace
}  // namespace cuflash::simt
