// mbarrier: phases, and what an arrival passes on to a wait. Planted faults, each with its correct
// twin.
#include "device/ptx/mbarrier.h"
#include "support.h"

namespace cuflash::simt {
namespace {

class MbarrierTest : public AccessTest {
 protected:
  Array<int> out_{1024, 0, "out"};
};

__device__ void init(std::uint64_t* barrier, unsigned arrivals) {
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, arrivals);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

// ---- Order -------------------------------------------------------------------------------------

enum class Arrives { kRight, kTooEarly, kNobodyWaits };

// The first warp writes, the second one reads.
__global__ void hand_over(int* out, Arrives how) {
  __shared__ int tile[32];
  __shared__ std::uint64_t full;
  const int lane = threadIdx.x % 32;
  init(&full, 32);
  if (threadIdx.x < 32) {
    if (how == Arrives::kTooEarly) ptx::mbarrier_arrive(&full);
    tile[lane] = lane;  // fills
    if (how != Arrives::kTooEarly) ptx::mbarrier_arrive(&full);
  } else {
    if (how != Arrives::kNobodyWaits) ptx::mbarrier_wait(&full, 0);
    out[lane] = tile[31 - lane];  // takes
  }
}

TEST_F(MbarrierTest, CallsAreCounted) {
  run(hand_over, {1, 64}, out_.data(), Arrives::kRight);
  EXPECT_EQ(counts().barrier_calls, 64u);
}

TEST_F(MbarrierTest, OrdersArrivalsBeforeTheWait) {
  under_all_schedules([&] {
    run(hand_over, {1, 64}, out_.data(), Arrives::kRight);
    EXPECT_EQ(out_.values()[1], 30);
    no_findings();
    for (const Arrives how : {Arrives::kTooEarly, Arrives::kNobodyWaits}) {
      run(hand_over, {1, 64}, out_.data(), how);
      // A reader that comes first finds no value, too.
      expect_some(FindingKind::kSharedRace, {"fills", "takes"});
    }
  });
}

// One lane arrives for its warp, and one lane waits for its own.
__global__ void elected(int* out, bool sync_before, bool sync_after) {
  __shared__ int tile[32];
  __shared__ std::uint64_t full;
  const int lane = threadIdx.x % 32;
  init(&full, 1);
  if (threadIdx.x < 32) {
    tile[lane] = lane;  // writes of the warp
    if (sync_before) __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&full);
  } else {
    if (lane == 5) ptx::mbarrier_wait(&full, 0);
    if (sync_after) __syncwarp();
    out[lane] = tile[31 - lane];  // reads of the warp
  }
}

TEST_F(MbarrierTest, SyncwarpPassesOrderOn) {
  under_all_schedules([&] {
    run(elected, {1, 64}, out_.data(), true, true);
    EXPECT_EQ(out_.values()[31], 0);
    no_findings();
    for (const bool before : {false, true}) {
      run(elected, {1, 64}, out_.data(), before, !before);
      expect_some(FindingKind::kSharedRace, {"writes of the warp"});
    }
  });
}

// Two stages of two warps each; what two warps have read, a third overwrites. Phases wrap often.
__global__ void pipeline(int* out, int tiles, unsigned readers) {
  constexpr int kStages = 2;
  __shared__ int tile[kStages][32];
  __shared__ std::uint64_t full[kStages], empty[kStages];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&full[stage], 1);
      ptx::mbarrier_init(&empty[stage], readers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  int sum = 0;
  for (int n = 0; n < tiles; ++n) {
    const int stage = n % kStages;
    const unsigned phase = n / kStages % 2;
    if (warp == 0) {
      ptx::mbarrier_wait(&empty[stage], phase ^ 1);
      tile[stage][lane] = n + lane;  // refills
      __syncwarp();
      if (lane == 0) ptx::mbarrier_arrive(&full[stage]);
    } else {
      ptx::mbarrier_wait(&full[stage], phase);
      sum += tile[stage][31 - lane];  // still reads
      __syncwarp();
      if (lane == 0 && warp <= static_cast<int>(readers)) {
        ptx::mbarrier_arrive(&empty[stage]);  // releases
      }
    }
  }
  out[threadIdx.x] = sum;
}

TEST_F(MbarrierTest, PhasesWrapManyTimes) {
  under_all_schedules([&] {
    run(pipeline, {1, 96}, out_.data(), 33, 2u);
    EXPECT_EQ(out_.values()[32], 33 * 32 / 2 + 33 * 31);
  });
}

TEST_F(MbarrierTest, AWarpThatDoesNotRelease) {
  under_all_schedules([&] {
    const FlashAttentionError error = launch(pipeline, {1, 96}, out_.data(), 8, 1u);
    if (schedule().order != Schedule::Order::kLagging) {  // A lane that lags may wait forever.
      EXPECT_EQ(error, FlashAttentionError::SUCCESS);
    }
    cudaGetLastError();
    expect_some(FindingKind::kSharedRace, {"refills", "still reads"});
  });
}

// ---- Phases ------------------------------------------------------------------------------------

// The first warp goes on to the next phase without an answer.
__global__ void no_answer(int phases, unsigned parity) {
  __shared__ std::uint64_t full;
  init(&full, 1);
  if (threadIdx.x == 0) {
    for (int n = 0; n < phases; ++n) ptx::mbarrier_arrive(&full);  // arrives again
  }
  if (threadIdx.x == 32) ptx::mbarrier_wait(&full, parity);  // waits too late
}

TEST_F(MbarrierTest, AWaitAFullPhaseLate) {
  under_all_schedules([&] {
    run(no_answer, {1, 64}, 1, 0);
    no_findings();
    run(no_answer, {1, 64}, 2, 0);
    const Finding finding = only_finding(FindingKind::kMbarrier);
    expect_report(finding, "WAIT A FULL PHASE LATE", "waits too late", {"arrives again"});
    says(finding, "The thread waits for phase 0, but phase 1 has ended as well.");
  });
  set_schedule({});
  run(no_answer, {1, 64}, 1, 1);
  says(only_finding(FindingKind::kMbarrier),
       "The thread waits for the phase before the first, but phase 0 has ended as well.");
}

// Each thread arrives; the barrier was told of fewer.
__global__ void all_arrive(unsigned arrivals, unsigned bytes) {
  __shared__ std::uint64_t done;
  init(&done, arrivals);
  if (threadIdx.x == 0 && bytes != 0) {
    ptx::mbarrier_arrive_expect_tx(&done, bytes);
  } else {
    ptx::mbarrier_arrive(&done);  // one of them
  }
}

TEST_F(MbarrierTest, MoreArrivalsThanAPhaseHas) {
  run(all_arrive, {1, 64}, 64u, 0u);
  no_findings();
  under_all_schedules([&] {
    run(all_arrive, {1, 64}, 60u, 0u);
    const Finding finding = only_finding(FindingKind::kMbarrier);
    expect_report(finding, "ARRIVAL IN A LATER PHASE", "one of them");
    EXPECT_EQ(finding.count, 4u);
    says(finding, "Phase 0 ended with 60 arrivals.");
  });
  set_schedule({});
  const Finding finding = fails(FindingKind::kMbarrier, 64, all_arrive, 60u, 16u);
  EXPECT_EQ(finding.title(), "TOO MANY ARRIVALS");
  says(finding, "Phase 0 already has 60 arrivals and still expects bytes.");
}

// The only thread that arrives knows when a phase ends; so does the last one of several.
__global__ void nobody_else(bool sync) {
  __shared__ std::uint64_t done;
  init(&done, 2);
  for (int n = 0; n < 5; ++n) {
    if (threadIdx.x == 32) ptx::mbarrier_arrive(&done);
    if (sync) __syncthreads();
    if (threadIdx.x == 0) ptx::mbarrier_arrive(&done);
    if (sync) __syncthreads();
  }
}

TEST_F(MbarrierTest, TheLastArrivalKnowsOfTheEnd) {
  run(no_answer, {1, 1}, 5, 0);
  run(nobody_else, {1, 64}, true);
  no_findings();
  run(nobody_else, {1, 64}, false);
  EXPECT_EQ(take_findings().at(0).title(), "ARRIVAL IN A LATER PHASE");
}

// ---- Deadlocks ---------------------------------------------------------------------------------

enum class Others { kExit, kSyncthreads, kSyncwarp, kMatrix };

__global__ void too_few(Others others) {
  __shared__ std::uint64_t full[2], empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 1);
    ptx::mbarrier_init(&full[1], 2);
    ptx::mbarrier_init(&empty, 1);
  }
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(&full[1], 4096);
    ptx::mbarrier_wait(&empty, 0);  // waits for an answer
  } else if (warp == 1) {
    ptx::mbarrier_wait(&full[1], 0);  // waits for data
  } else if (others == Others::kSyncthreads) {
    __syncthreads();  // waits for all
  } else if (others == Others::kSyncwarp && lane < 2) {
    if (lane == 1) ptx::mbarrier_wait(&empty, 0);
    __syncwarp(3);  // waits for a lane
  }
}

TEST_F(MbarrierTest, ADeadlockShowsTheBarriers) {
  under_all_schedules([&] {
    const Finding finding = fails(FindingKind::kMbarrier, 96, too_few, Others::kSyncthreads);
    EXPECT_EQ(finding.title(), "DEADLOCK AT AN MBARRIER");
    says(finding,
         "  full[1] (elements of 8 bytes)\n   phase 0: 1 of 2 arrivals, 0 of 4096 bytes\n");
    says(finding, "  empty[0] (elements of 8 bytes)\n   phase 0: 0 of 1 arrival, 0 of 0 bytes\n");
    says(finding, "  Warp 0 lane 0 waits at " + LINE_MARKED("waits for an answer"));
    says(finding, "for empty[0]");
    says(finding, "  Warp 1 lane 0 waits at " + LINE_MARKED("waits for data"));
    says(finding, "  Warp 2 lane 0 waits at " + LINE_MARKED("waits for all"));
    EXPECT_EQ(finding.message().find("full[0]"), std::string::npos);
  });
}

TEST_F(MbarrierTest, ADeadlockOfLanes) {
  EXPECT_EQ(fails(FindingKind::kMbarrier, 96, too_few, Others::kExit).title(),
            "DEADLOCK AT AN MBARRIER");
  const Finding finding = fails(FindingKind::kMbarrier, 96, too_few, Others::kSyncwarp);
  EXPECT_EQ(finding.title(), "DEADLOCK AT AN MBARRIER");
  says(finding, "  Warp 2 lane 0 waits at " + LINE_MARKED("waits for a lane"));
}

// ---- Use ---------------------------------------------------------------------------------------

enum class Use {
  kRight,
  kNotInitialised,
  kNotOrdered,
  kNoArrivals,
  kParity,
  kInGlobal,
  kMisaligned
};

__global__ void use(std::uint64_t* global, Use how) {
  __shared__ std::uint64_t barriers[3];
  std::uint64_t* barrier = &barriers[0];
  if (how == Use::kInGlobal) barrier = global;
  if (how == Use::kMisaligned) {
    barrier = reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(barrier) + 4);
  }
  if (threadIdx.x == 0) ptx::mbarrier_init(barrier, how == Use::kNoArrivals ? 0 : 2);  // begins it
  if (how != Use::kNotOrdered) __syncthreads();
  if (how == Use::kNotInitialised) ++barrier;
  ptx::mbarrier_arrive(barrier);                             // uses it
  ptx::mbarrier_wait(barrier, how == Use::kParity ? 2 : 0);  // waits
}

TEST_F(MbarrierTest, Use) {
  const Array<std::uint64_t> global(2);
  const auto fails = [&](FindingKind kind, Use how) {
    return MbarrierTest::fails(kind, 2, use, global.data(), how);
  };
  for (int block = 0; block < 2; ++block) run(use, {2, 2}, global.data(), Use::kRight);
  no_findings();
  Finding finding = fails(FindingKind::kMbarrier, Use::kNotInitialised);
  expect_report(finding, "MBARRIER NOT INITIALISED", "uses it");
  says(finding, "  barriers[1] (elements of 8 bytes)\n");
  expect_report(fails(FindingKind::kMbarrier, Use::kNoArrivals), "MBARRIER OUT OF RANGE",
                "begins it");
  finding = fails(FindingKind::kMbarrier, Use::kParity);
  says(finding, "The parity of a phase is 0 or 1; this is 2.");
  EXPECT_EQ(finding.location, LINE_MARKED("waits"));
  says(fails(FindingKind::kOutOfBounds, Use::kInGlobal),
       "mbarrier.init writes shared memory; this is global memory.");
  says(fails(FindingKind::kMisaligned, Use::kMisaligned), "a multiple of 8");
  run(use, {1, 2}, global.data(), Use::kNotOrdered);
  const std::vector<Finding> races = take_findings();
  ASSERT_EQ(races.size(), 2u);
  for (const Finding& race : races) {
    EXPECT_EQ(race.title(), "RACE in shared memory");
    says(race, LINE_MARKED("begins it"));
  }
  says(races[0], LINE_MARKED("uses it"));
  says(races[1], LINE_MARKED("waits"));
}

// A block does not inherit the barriers of the one before.
__global__ void only_block_0_begins() {
  __shared__ std::uint64_t barrier;
  if (blockIdx.x == 0) ptx::mbarrier_init(&barrier, 1);
  ptx::mbarrier_arrive(&barrier);
}

TEST_F(MbarrierTest, EndsWithTheBlock) {
  EXPECT_EQ(launch(only_block_0_begins, {2, 1}), FlashAttentionError::CUDA_ERROR);
  cudaGetLastError();
  EXPECT_EQ(only_finding(FindingKind::kMbarrier).title(), "MBARRIER NOT INITIALISED");
}

// Barriers are no memory traffic.
TEST_F(MbarrierTest, IsNotCounted) {
  run(nobody_else, {1, 64}, true);
  EXPECT_EQ(counts().shared_requests, 0u);
  EXPECT_EQ(counts().shared_wavefronts, 0u);
  EXPECT_TRUE(line_counts().empty());
}

}  // namespace
}  // namespace cuflash::simt
