// cp.async.bulk.tensor: the wait for a copy, and stages that are full or empty. Planted faults,
// each with its correct twin.
#include "device/host/tile_map.h"
#include "tensor_copy_support.h"

namespace cuflash::simt {
namespace {

// ---- The wait ----------------------------------------------------------------------------------

enum class Waits { kAll, kOneAndBarrier, kOneWithoutBarrier, kNone, kNever };

__global__ void copy_and_read(const __grid_constant__ TensorMap map, int* out, Waits waits) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  begin(full);
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
  under_all_schedules([&] {
    for (const Waits waits : {Waits::kAll, Waits::kOneAndBarrier}) {
      run(copy_and_read, {1, 64}, map(), out_.data(), waits);
      EXPECT_EQ(out_.values()[63], 63);
      no_findings();
    }
    for (const Waits waits : {Waits::kNone, Waits::kOneWithoutBarrier}) {
      run(copy_and_read, {1, 64}, map(), out_.data(), waits);
      // A thread that comes before the copy finds no value, and the copy comes into its place.
      expect_some(FindingKind::kAsyncCopy, {"copies k", "reads k"});
    }
  });
  set_schedule({});
  run(copy_and_read, {1, 64}, map(), out_.data(), Waits::kNone);
  EXPECT_EQ(out_.values()[0], 0xffff);  // The first thread reads, then waits.
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  expect_report(finding, "READ OF A STAGE THAT IS NOT FULL", "reads k");
  EXPECT_EQ(finding.array, "sK");
  EXPECT_EQ(finding.count, 64u);
  says(finding, "The copy ends with phase 0 of full[0] (elements of 8 bytes).");
}

TEST_F(TensorCopyTest, ABlockMustWaitBeforeItsEnd) {
  run(copy_and_read, {2, 64}, map(), out_.data(), Waits::kNever);
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  expect_report(finding, "COPY WITHOUT A WAIT", "copies k");
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
  under_all_schedules([&] {
    for (const int tiles : {1, 2, 3, 20}) {
      run(pipeline, {1, 32 * (kConsumers + 1)}, map(), out_.data(), tiles, Fault::kNone);
      EXPECT_EQ(out_.values()[127], tiles * 384 + 512 * tiles * (tiles - 1) / 2);
      no_findings();
    }
  });
}

TEST_F(TensorCopyTest, AReadOfAStageThatIsNotFull) {
  under_all_schedules([&] {
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
  });
}

TEST_F(TensorCopyTest, ACopyIntoAStageThatIsNotEmpty) {
  for (const Fault fault : {Fault::kReleasedTooEarly, Fault::kOneWarpTooFew}) {
    bool copy = false;
    under_all_schedules([&] {
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
    });
    EXPECT_TRUE(copy);
  }
}

TEST_F(TensorCopyTest, ACopyOverACopy) {
  under_all_schedules([&] {
    EXPECT_EQ(launch(pipeline, {1, 32 * (kConsumers + 1)}, map(), out_.data(), 3,
                     Fault::kEmptyNotAwaited),
              FlashAttentionError::CUDA_ERROR);
    cudaGetLastError();
    const std::vector<Finding> findings = take_findings();
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(findings[0].title(), "ARRIVAL IN A LATER PHASE");
  });
}

// One thread of the block has tiles copied, and all wait.
__global__ void one_for_all(const __grid_constant__ TensorMap map, int* out, int tiles, bool sync) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  begin(full);
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
  under_all_schedules([&] {
    run(one_for_all, {1, 128}, map(), out_.data(), 9, true);
    EXPECT_EQ(out_.values()[127], 9 * 384 + 512 * 36);
    no_findings();
    run(one_for_all, {1, 128}, map(), out_.data(), 2, false);
    EXPECT_TRUE(finds("WAIT A FULL PHASE LATE", {"re-arms", "all wait"}));
    // A warp is no exception.
    run(one_for_all, {1, 32}, map(), out_.data(), 2, false);
    EXPECT_FALSE(take_findings().empty());
  });
}

// All lanes of a warp wait, and the first begins the copies. Another thread may answer before all
// lanes have seen the phase for which they wait, unless the first one waits for them.
__global__ void lanes_wait(const __grid_constant__ TensorMap map, int* out, int tiles, bool sync) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full, empty;
  begin(full);
  begin(empty, 1);
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
  under_all_schedules(17, [&] {
    run(lanes_wait, {1, 33}, map(), out_.data(), 5, true);
    EXPECT_EQ(out_.values()[32], 5 * 1 + 512 * 10);
  });
  no_findings();
  set_schedule({Schedule::Order::kLagging, 1});
  run(lanes_wait, {1, 33}, map(), out_.data(), 1, false);
  const Finding finding = only_finding(FindingKind::kMbarrier);
  expect_report(finding, "WAIT A FULL PHASE LATE", "all lanes wait", {"answers"});
  says(finding, "warp 0 lane 31");
  says(finding, "Another lane of the warp was in time");
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
