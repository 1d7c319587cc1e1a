// cp.async.bulk.tensor: the wait for a copy, and stages that are full or empty. Planted faults,
// each with its correct twin.
#include "device/ptx/ldmatrix.h"
#include "device/tile_map.h"
#include "tensor_copy_support.h"

namespace cuflash::simt {
namespace {

// ---- The wait ----------------------------------------------------------------------------------

enum class Waits { kAll, kOneAndBarrier, kOneWithoutBarrier, kNone, kNever };

__global__ void copy_and_read(const __grid_constant__ TensorMap map, int* out, Waits waits) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (t == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // copies k
  }
  if (waits == Waits::kAll || (t == 40 && waits != Waits::kNone && waits != Waits::kNever)) {
    ptx::mbarrier_wait(&full, 0);
  }
  if (waits == Waits::kOneAndBarrier) __syncthreads();
  if (waits != Waits::kNever) out[t] = sK[t];  // reads k
  if (waits == Waits::kNone) ptx::mbarrier_wait(&full, 0);
}

TEST_F(TensorCopyTest, ArrivesAtTheWait) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    for (const Waits waits : {Waits::kAll, Waits::kOneAndBarrier}) {
      run(copy_and_read, {1, 64}, map(), out_.data(), waits);
      EXPECT_EQ(out_.values()[63], 63);
      ASSERT_TRUE(take_findings().empty());
    }
    for (const Waits waits : {Waits::kNone, Waits::kOneWithoutBarrier}) {
      run(copy_and_read, {1, 64}, map(), out_.data(), waits);
      bool copy = false;
      for (const Finding& finding : take_findings()) {
        // A thread that comes before the copy finds no value, and the copy comes into its place.
        copy |= finding.kind() == FindingKind::kAsyncCopy;
        if (finding.kind() != FindingKind::kAsyncCopy) continue;
        says(finding, LINE_MARKED("copies k"));
        says(finding, LINE_MARKED("reads k"));
      }
      EXPECT_TRUE(copy);
    }
  }
  set_schedule({});
  run(copy_and_read, {1, 64}, map(), out_.data(), Waits::kNone);
  EXPECT_EQ(out_.values()[0], 0xffff);  // The first thread reads, then waits.
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  EXPECT_EQ(finding.title(), "READ OF A STAGE THAT IS NOT FULL");
  EXPECT_EQ(finding.array, "sK");
  EXPECT_EQ(finding.location, LINE_MARKED("reads k"));
  EXPECT_EQ(finding.count, 64u);
  says(finding, "The copy ends with phase 0 of full[0] (elements of 8 bytes).");
}

TEST_F(TensorCopyTest, ABlockMustWaitBeforeItsEnd) {
  run(copy_and_read, {2, 64}, map(), out_.data(), Waits::kNever);
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  EXPECT_EQ(finding.title(), "COPY WITHOUT A WAIT");
  EXPECT_EQ(finding.location, LINE_MARKED("copies k"));
  EXPECT_EQ(finding.count, 2u);
}

// ---- Full and empty stages ---------------------------------------------------------------------

enum class Fault { kNone, kFullNotAwaited, kEmptyNotAwaited, kReleasedTooEarly, kOneWarpTooFew };

constexpr int kStages = 2, kConsumers = 4;

// The last warp has tiles copied, the others read them.
__global__ void pipeline(const __grid_constant__ TensorMap map, int* out, int tiles, Fault fault) {
  __shared__ __align__(128) Half sK[kStages][kRows * kCols];
  __shared__ std::uint64_t full[kStages], empty[kStages];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&full[stage], 1);
      ptx::mbarrier_init(&empty[stage], fault == Fault::kOneWarpTooFew ? 3 : kConsumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp == kConsumers) {
    for (int n = 0; n < tiles && lane == 0; ++n) {
      const int stage = n % kStages;
      const unsigned phase = n / kStages % 2;
      if (fault != Fault::kEmptyNotAwaited) ptx::mbarrier_wait(&empty[stage], phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(&full[stage], kBytes);
      ptx::tensor_copy(sK[stage], map, 0, n * kRows, 0, 0, &full[stage]);  // refills
    }
    return;
  }
  int sum = 0;
  for (int n = 0; n < tiles; ++n) {
    const int stage = n % kStages;
    const unsigned phase = n / kStages % 2;
    const bool releases = lane == 0 && !(fault == Fault::kOneWarpTooFew && warp == 2);
    if (fault != Fault::kFullNotAwaited) ptx::mbarrier_wait(&full[stage], phase);
    if (releases && fault == Fault::kReleasedTooEarly) ptx::mbarrier_arrive(&empty[stage]);
    sum += sK[stage][511 - threadIdx.x];  // still reads
    ptx::fence_proxy_async();
    __syncwarp();
    if (releases && fault != Fault::kReleasedTooEarly) ptx::mbarrier_arrive(&empty[stage]);
  }
  out[threadIdx.x] = sum;
}

TEST_F(TensorCopyTest, AProducerWarpAndSeveralConsumers) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    for (const int tiles : {1, 2, 3, 20}) {
      run(pipeline, {1, 32 * (kConsumers + 1)}, map(), out_.data(), tiles, Fault::kNone);
      EXPECT_EQ(out_.values()[127], tiles * 384 + 512 * tiles * (tiles - 1) / 2);
      ASSERT_TRUE(take_findings().empty());
    }
  }
}

TEST_F(TensorCopyTest, AReadOfAStageThatIsNotFull) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    (void)launch(pipeline, {1, 32 * (kConsumers + 1)}, map(), out_.data(), 4,
                 Fault::kFullNotAwaited);
    cudaGetLastError();
    const std::vector<Finding> findings = take_findings();
    ASSERT_FALSE(findings.empty());
    for (const Finding& finding : findings) {
      // Which of them depends on the schedule.
      EXPECT_TRUE(finding.title() == "READ OF A STAGE THAT IS NOT FULL" ||
                  finding.title() == "COPY INTO A STAGE THAT IS NOT EMPTY" ||
                  finding.title() == "READ OF UNINITIALISED MEMORY" ||
                  finding.kind() == FindingKind::kMbarrier)
          << finding.message();
    }
  }
}

TEST_F(TensorCopyTest, ACopyIntoAStageThatIsNotEmpty) {
  for (const Fault fault : {Fault::kReleasedTooEarly, Fault::kOneWarpTooFew}) {
    bool copy = false;
    for (const Schedule& schedule : all_schedules()) {
      set_schedule(schedule);
      (void)launch(pipeline, {1, 32 * (kConsumers + 1)}, map(), out_.data(), 6, fault);
      cudaGetLastError();
      const std::vector<Finding> findings = take_findings();
      ASSERT_FALSE(findings.empty()) << static_cast<int>(fault);
      for (const Finding& finding : findings) {
        if (finding.kind() != FindingKind::kAsyncCopy) continue;
        copy |= finding.title() == "COPY INTO A STAGE THAT IS NOT EMPTY";
        says(finding, LINE_MARKED("refills"));
        says(finding, LINE_MARKED("still reads"));
      }
    }
    EXPECT_TRUE(copy);
  }
}

TEST_F(TensorCopyTest, ACopyOverACopy) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    EXPECT_EQ(launch(pipeline, {1, 32 * (kConsumers + 1)}, map(), out_.data(), 3,
                     Fault::kEmptyNotAwaited),
              FlashAttentionError::CUDA_ERROR);
    cudaGetLastError();
    const std::vector<Finding> findings = take_findings();
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(findings[0].title(), "ARRIVAL IN A LATER PHASE");
  }
}

// One thread of the block has tiles copied, and all wait.
__global__ void one_for_all(const __grid_constant__ TensorMap map, int* out, int tiles, bool sync) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  int sum = 0;
  for (int n = 0; n < tiles; ++n) {
    if (t == 0) {
      ptx::mbarrier_arrive_expect_tx(&full, kBytes);         // re-arms
      ptx::tensor_copy(sK, map, 0, n * kRows, 0, 0, &full);  // copies over
    }
    ptx::mbarrier_wait(&full, n % 2);  // all wait
    sum += sK[511 - t];                // reads until here
    ptx::fence_proxy_async();
    if (sync) __syncthreads();
  }
  out[t] = sum;
}

TEST_F(TensorCopyTest, ReuseAfterSyncthreads) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    run(one_for_all, {1, 128}, map(), out_.data(), 9, true);
    EXPECT_EQ(out_.values()[127], 9 * 384 + 512 * 36);
    ASSERT_TRUE(take_findings().empty());
    run(one_for_all, {1, 128}, map(), out_.data(), 2, false);
    EXPECT_TRUE(finds("WAIT A FULL PHASE LATE", LINE_MARKED("re-arms"), LINE_MARKED("all wait")));
    // A warp is no exception.
    run(one_for_all, {1, 32}, map(), out_.data(), 2, false);
    EXPECT_FALSE(take_findings().empty());
  }
}

// All lanes of a warp wait, and the first begins the copies. Another thread may answer before all
// lanes have seen the phase for which they wait, unless the first one waits for them.
__global__ void lanes_wait(const __grid_constant__ TensorMap map, int* out, int tiles, bool sync) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full, empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&empty, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  int sum = 0;
  for (int n = 0; n < tiles; ++n) {
    if (threadIdx.x < 32) {
      __syncwarp();                           // All lanes have begun.
      ptx::mbarrier_wait(&empty, n % 2 ^ 1);  // all lanes wait
      if (sync) __syncwarp();
      if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, kBytes);
        ptx::tensor_copy(sK, map, 0, n * kRows, 0, 0, &full);
      }
    } else {
      ptx::mbarrier_wait(&full, n % 2);
      sum += sK[1];
      ptx::fence_proxy_async();
      ptx::mbarrier_arrive(&empty);  // answers
    }
  }
  out[threadIdx.x] = sum;
}

TEST_F(TensorCopyTest, ALaneThatLagsBehindItsWarp) {
  std::vector<Schedule> schedules = all_schedules();
  for (unsigned seed = 3; seed < 20; ++seed) {
    schedules.push_back({Schedule::Order::kRandom, seed});
  }
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    run(lanes_wait, {1, 33}, map(), out_.data(), 5, true);
    EXPECT_EQ(out_.values()[32], 5 * 1 + 512 * 10);
  }
  ASSERT_TRUE(take_findings().empty());
  set_schedule({Schedule::Order::kLagging, 1});
  run(lanes_wait, {1, 33}, map(), out_.data(), 1, false);
  const Finding finding = only_finding(FindingKind::kMbarrier);
  EXPECT_EQ(finding.title(), "WAIT A FULL PHASE LATE");
  EXPECT_EQ(finding.location, LINE_MARKED("all lanes wait"));
  says(finding, LINE_MARKED("answers"));
  says(finding, "warp 0 lane 31");
  says(finding, "Another lane of its warp has come in time");
}

// What a kernel of attention does, without its products. One warp has tiles of Q, K and V copied.
// All its lanes wait, and then one begins the copies. In the consumers every lane arrives. Each
// writes what it computes where its rows of Q were, for the next block of Q to replace.
constexpr int kReaders = 2;

struct Attention {
  alignas(128) Half sQ[kReaders][kRows * kCols];
  alignas(128) Half sK[kStages][kRows * kCols], sV[kStages][kRows * kCols];
  std::uint64_t q_full, q_empty, k_full[kStages], v_full[kStages], k_empty[kStages],
      v_empty[kStages];
};

enum class Skips { kNothing, kFence, kQueryRelease, kValueRelease };

__global__ void attend(const __grid_constant__ TensorMap map, int* out, int blocks, int tiles,
                       Skips skips) {
  auto& s = shared_storage<Attention>();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.q_full, 1);
    ptx::mbarrier_init(&s.q_empty, 32 * kReaders);
    for (int stage = 0; stage < kStages; ++stage) {
      for (std::uint64_t* full : {s.k_full, s.v_full}) ptx::mbarrier_init(&full[stage], 1);
      for (std::uint64_t* empty : {s.k_empty, s.v_empty}) {
        ptx::mbarrier_init(&empty[stage], 32 * kReaders);
      }
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  int n = 0;  // tiles so far
  for (int block = 0; block < blocks; ++block) {
    if (warp == kReaders) {
      if (skips != Skips::kQueryRelease) ptx::mbarrier_wait(&s.q_empty, block % 2 ^ 1);
      __syncwarp();
      if (lane == 0) {
        ptx::mbarrier_arrive_expect_tx(&s.q_full, kReaders * kBytes);
        for (int w = 0; w < kReaders; ++w) {
          ptx::tensor_copy(s.sQ[w], map, 0, w * kRows, 0, 0, &s.q_full);  // brings Q
        }
      }
    } else {
      ptx::mbarrier_wait(&s.q_full, block % 2);
    }
    int sum = 0;
    for (int tile = 0; tile < tiles; ++tile, ++n) {
      const int stage = n % kStages;
      const unsigned phase = n / kStages % 2;
      if (warp == kReaders) {
        ptx::mbarrier_wait(&s.k_empty[stage], phase ^ 1);
        __syncwarp();
        if (lane == 0) {
          ptx::mbarrier_arrive_expect_tx(&s.k_full[stage], kBytes);
          ptx::tensor_copy(s.sK[stage], map, 0, tile * kRows, 0, 0, &s.k_full[stage]);
        }
        if (skips != Skips::kValueRelease) ptx::mbarrier_wait(&s.v_empty[stage], phase ^ 1);
        __syncwarp();
        if (lane == 0) {
          ptx::mbarrier_arrive_expect_tx(&s.v_full[stage], kBytes);
          ptx::tensor_copy(s.sV[stage], map, 0, tile * kRows, 0, 0, &s.v_full[stage]);  // brings V
        }
      } else {
        unsigned rQ[4], rK[4], rV[4];
        ptx::mbarrier_wait(&s.k_full[stage], phase);
        ptx::ldmatrix_x4(rQ, &s.sQ[warp][lane * 8]);
        ptx::ldmatrix_x4(rK, &s.sK[stage][lane * 8]);
        ptx::fence_proxy_async();
        ptx::mbarrier_arrive(&s.k_empty[stage]);
        ptx::mbarrier_wait(&s.v_full[stage], phase);
        ptx::ldmatrix_x4_trans(rV, &s.sV[stage][lane * 8]);  // takes V
        ptx::fence_proxy_async();
        ptx::mbarrier_arrive(&s.v_empty[stage]);
        sum += rQ[0] % 7 + rK[1] % 7 + rV[2] % 7;
      }
    }
    if (warp == kReaders) continue;
    __syncwarp();
    s.sQ[warp][lane * 8] = static_cast<Half>(sum);  // writes O
    __syncwarp();
    out[threadIdx.x] = s.sQ[warp][(31 - lane) * 8];
    if (skips != Skips::kFence) ptx::fence_proxy_async();
    ptx::mbarrier_arrive(&s.q_empty);
  }
}

TEST_F(TensorCopyTest, AWholeKernelIsRight) {
  std::vector<Schedule> schedules = all_schedules();
  for (unsigned seed = 3; seed < 30; ++seed) {
    schedules.push_back({Schedule::Order::kRandom, seed});
  }
  for (const Schedule& schedule : schedules) {
    set_schedule(schedule);
    run(attend, {1, 32 * (kReaders + 1), shared_layout<Attention>()}, map(), out_.data(), 4, 5,
        Skips::kNothing);
    for (const Finding& finding : take_findings()) {
      ADD_FAILURE() << schedule_name(schedule) << '\n' << finding.message();
    }
  }
}

TEST_F(TensorCopyTest, AWholeKernelWithFaults) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    const auto attend_without = [&](Skips skips) {
      (void)launch(attend, {1, 32 * (kReaders + 1), shared_layout<Attention>()}, map(), out_.data(),
                   4, 5, skips);
      cudaGetLastError();
    };
    attend_without(Skips::kFence);
    EXPECT_TRUE(
        finds("WRITE WITHOUT A PROXY FENCE", LINE_MARKED("writes O"), LINE_MARKED("brings Q")));
    for (const Skips skips : {Skips::kQueryRelease, Skips::kValueRelease}) {
      attend_without(skips);
      EXPECT_FALSE(take_findings().empty());
    }
  }
}

// What the driver is given: each stride steps over the dimension before it.
TEST_F(TensorCopyTest, StridesOfATileMapNest) {
  constexpr int kHeadRows = 5, kHeads = 3, kBatch = 2;
  // Of rows, heads and batches. Of some there is only one in memory.
  const std::int64_t all_strides[][3] = {{kCols, kCols * kHeadRows, kCols * kHeadRows * kHeads},
                                         {kCols * kHeads, kCols, kCols * kHeadRows * kHeads},
                                         {kCols * kHeads * kBatch, kCols, kCols * kHeads},
                                         {kCols, 0, kCols * kHeadRows},
                                         {kCols * kHeads, kCols, 0},
                                         {kCols, 0, 0}};
  for (const auto& [rows, heads, batches] : all_strides) {
    TileMap map;
    ASSERT_TRUE(make_map(map, {in_.data(),
                               CUFLASH_F16,
                               {kCols, kHeadRows, kHeads, kBatch},
                               {rows, heads, batches},
                               {kCols, kRows, 1, 1},
                               TensorSwizzle::kNone}));
    const TensorMapArguments& driver = map.map.arguments;
    for (int i = 1; i < TensorMapArguments::kRank; ++i) {
      EXPECT_GE(driver.stride(i), driver.stride(i - 1) * driver.extents[i - 1]) << in_words(driver);
    }
  }
}

}  // namespace
}  // namespace cuflash::simt
