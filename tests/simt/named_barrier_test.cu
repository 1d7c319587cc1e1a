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
  under_all_schedules([&] {
    run(hand_over, {1, 160}, out_.data(), Syncs::kRight);
    EXPECT_EQ(out_.values()[64], 63);
    no_findings();
    for (const Syncs how : {Syncs::kOneTooFew, Syncs::kOtherBarrier, Syncs::kNone}) {
      run(hand_over, {1, 160}, out_.data(), how);
      expect_some(FindingKind::kSharedRace, {"fills", "takes"});
    }
  });
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
  under_all_schedules([&] {
    run(take_turns, {1, 64}, out_.data(), true);
    EXPECT_EQ(out_.values()[0], 8);
    no_findings();
    run(take_turns, {1, 64}, out_.data(), false);
    expect_lines(only_finding(FindingKind::kSharedRace), {"writes", "reads"});
  });
}

// ---- Threads that go on ------------------------------------------------------------------------

enum class Arrives { kRight, kBeforeItWrites, kTwice, kAtItsOwn, kNever, kThenWrites };

// Two groups of two warps take turns: each adds to the sums of the other. Barrier 1 + g gives group
// g its turn; group 0 gives itself the first.
__global__ void ping_pong(int* out, int turns, Arrives how) {
  __shared__ int sums[64];
  const int group = threadIdx.x / 64, t = threadIdx.x % 64, mine = 1 + group, other = 2 - group;
  if (group == 0) sums[t] = 0;
  if (group == 0) ptx::named_barrier_arrive(1, 128);
  for (int n = 0; n < turns; ++n) {
    ptx::named_barrier_sync(mine, 128);  // waits for its turn
    if (how == Arrives::kBeforeItWrites) ptx::named_barrier_arrive(other, 128);
    sums[(t + n + group) % 64] += t;                                      // adds
    if (how == Arrives::kAtItsOwn) ptx::named_barrier_arrive(mine, 128);  // at its own
    if (how == Arrives::kAtItsOwn || how == Arrives::kBeforeItWrites) continue;
    if (how == Arrives::kNever && n == 1) continue;
    ptx::named_barrier_arrive(other, 128);
    if (how == Arrives::kTwice) ptx::named_barrier_arrive(other, 128);  // once more
    if (how == Arrives::kThenWrites && group == 0) sums[t] += 1;        // adds too late
  }
  if (group == 1) ptx::named_barrier_sync(3, 64);
  if (group == 1) out[t] = sums[t];
}

TEST_F(NamedBarrierTest, TurnsByArrivals) {
  constexpr int kTurns = 5;
  std::vector<int> expected(64);
  for (int n = 0; n < kTurns; ++n) {
    for (int t = 0; t < 64; ++t) expected[(t + n) % 64] += t, expected[(t + n + 1) % 64] += t;
  }
  under_all_schedules(17, [&] {
    run(ping_pong, {1, 128}, out_.data(), kTurns, Arrives::kRight);
    std::vector<int> sums = out_.values();
    sums.resize(64);
    EXPECT_EQ(sums, expected);
    no_findings();
  });
}

TEST_F(NamedBarrierTest, AnArrivalOrdersWhatCameBefore) {
  under_all_schedules([&] {
    for (const Arrives how : {Arrives::kBeforeItWrites, Arrives::kThenWrites}) {
      run(ping_pong, {1, 128}, out_.data(), 5, how);
      bool race = false;
      for (const Finding& finding : take_findings()) {
        const bool adds = finding.message().find(LINE_MARKED("adds")) != std::string::npos;
        race |= finding.kind() == FindingKind::kSharedRace && adds;
      }
      EXPECT_TRUE(race);
    }
  });
}

TEST_F(NamedBarrierTest, ArrivalsThatAreTooMany) {
  const auto fails = [&](Arrives how) {
    return AccessTest::fails(FindingKind::kDivergentBarrier, 128, ping_pong, out_.data(), 5, how);
  };
  under_all_schedules([&] {
    expect_report(fails(Arrives::kTwice), "NAMED BARRIER USED AGAIN TOO SOON", "", {"once more"});
    const Finding at_its_own = fails(Arrives::kAtItsOwn);
    EXPECT_EQ(at_its_own.title(), "DEADLOCK AT A NAMED BARRIER");
    says(at_its_own, "at barrier 2: 64 of 128 threads");
    expect_report(fails(Arrives::kNever), "DEADLOCK AT A NAMED BARRIER", "",
                  {"waits for its turn"});
  });
}

// Two groups meet at one barrier each for itself: the first threads to come may be of both.
__global__ void two_meetings(int* out, bool ordered) {
  const int group = threadIdx.x / 64;
  if (ordered && group == 1) ptx::named_barrier_sync(2, 128);
  ptx::named_barrier_sync(1, 64);  // meets
  if (ordered && group == 0) ptx::named_barrier_arrive(2, 128);
  out[threadIdx.x] = 1;
}

TEST_F(NamedBarrierTest, ABarrierForTwoMeetings) {
  under_all_schedules([&] {
    run(two_meetings, {1, 128}, out_.data(), true);
    no_findings();
    const bool ended =
        launch(two_meetings, {1, 128}, out_.data(), false) == FlashAttentionError::CUDA_ERROR;
    cudaGetLastError();
    EXPECT_TRUE(ended);
    says(only_finding(FindingKind::kDivergentBarrier), LINE_MARKED("meets"));
  });
}

// The first warp of each block writes; the second, which is told by an arrival, counts; the last
// block's reads what all have written.
__global__ void last_block(int* out, unsigned* counter, int* sum) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    out[blockIdx.x * 32 + lane] = lane;
    __threadfence();
    ptx::named_barrier_arrive(1, 64);
    return;
  }
  ptx::named_barrier_sync(1, 64);
  const unsigned before = atomicAdd(counter, lane == 0 ? 1u : 0u);
  if (lane == 0 && before == gridDim.x - 1) {
    for (unsigned i = 0; i < 32 * gridDim.x; ++i) *sum += out[i];
  }
}

TEST_F(NamedBarrierTest, AnArrivalPassesFencesOn) {
  const Array<unsigned> counter(1, 0u);
  const Array<int> sum(1, 0, "sum");
  run(last_block, {3, 64}, out_.data(), counter.data(), sum.data());
  EXPECT_EQ(sum.values()[0], 3 * 31 * 16);
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
  no_findings();
  // What the simulator does on the threads' stacks is no access of theirs.
  EXPECT_EQ(counts().global_read_requests + counts().global_write_requests, 0u);
  const auto fails = [&](Comes who, int barrier, int threads) {
    return AccessTest::fails(FindingKind::kDivergentBarrier, 64, meet, who, barrier, threads);
  };
  under_all_schedules([&] {
    EXPECT_EQ(fails(Comes::kHalfAWarp, 1, 32).title(), "NAMED BARRIER WITHOUT A WHOLE WARP");
    EXPECT_EQ(fails(Comes::kOtherSize, 1, 64).title(), "NAMED BARRIER OF TWO SIZES");
    for (const Comes who : {Comes::kTooFew, Comes::kSomeAtSyncthreads}) {
      const Finding finding = fails(who, 1, 64);
      expect_report(finding, "DEADLOCK AT A NAMED BARRIER", "", {"waits for some"});
      says(finding, "at barrier 1: 32 of 64 threads");
    }
  });
  for (const int barrier : {0, 16, -1}) {
    EXPECT_EQ(fails(Comes::kAll, barrier, 64).title(), "NAMED BARRIER OUT OF RANGE");
  }
  for (const int threads : {0, 40}) {
    EXPECT_EQ(fails(Comes::kAll, 1, threads).title(), "NAMED BARRIER OUT OF RANGE");
  }
}

}  // namespace
}  // namespace cuflash::simt
