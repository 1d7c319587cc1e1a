// cp.async.bulk.tensor: what happens between a copy's begin and the wait for its phase. Planted
// faults, each with its correct twin.
#include "device/ptx/ldmatrix.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/tensor_copy.h"
#include "support.h"

namespace cuflash::simt {
namespace {

constexpr int kRows = 8, kCols = 64, kBytes = kRows * kCols * 2;

using Half = unsigned short;

class TensorCopyTest : public AccessTest {
 protected:
  TensorCopyTest() {
    std::vector<Half> values;
    for (int i = 0; i < kTensorRows * kCols; ++i) values.push_back(static_cast<Half>(i));
    in_.set(values);
  }
  // Boxes of kRows rows.
  TensorMap map(TensorSwizzle swizzle = TensorSwizzle::kNone) const {
    TensorMap map;
    EXPECT_EQ(make_tensor_map(map, {in_.data(),
                                    CUFLASH_F16,
                                    {kCols, kTensorRows, 1, 1},
                                    {2 * kCols, 0, 0},
                                    {kCols, kRows, 1, 1},
                                    swizzle}),
              "");
    return map;
  }
  // A finding that ends the launch.
  template <class... Params, class... Args>
  Finding fails(FindingKind kind, int threads, void (*kernel)(Params...), Args&&... args) {
    EXPECT_EQ(launch(kernel, {1, static_cast<unsigned>(threads)}, std::forward<Args>(args)...),
              FlashAttentionError::CUDA_ERROR);
    cudaGetLastError();
    return only_finding(kind);
  }
  static constexpr int kTensorRows = 20 * kRows;
  Array<Half> in_{kTensorRows * kCols, "in"};
  Array<int> out_{1024, 0, "out"};
};

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
        copy |= finding.kind == FindingKind::kAsyncCopy;
        if (finding.kind != FindingKind::kAsyncCopy) continue;
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
  EXPECT_EQ(finding.title, "READ OF A STAGE THAT IS NOT FULL");
  EXPECT_EQ(finding.array, "sK");
  EXPECT_EQ(finding.location, LINE_MARKED("reads k"));
  EXPECT_EQ(finding.count, 64u);
  says(finding, "The copy ends with phase 0 of full[0] (elements of 8 bytes).");
}

TEST_F(TensorCopyTest, ABlockMustWaitBeforeItsEnd) {
  run(copy_and_read, {2, 64}, map(), out_.data(), Waits::kNever);
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  EXPECT_EQ(finding.title, "COPY WITHOUT A WAIT");
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

// The title of a finding with both lines, which there must be.
bool finds(const std::string& title, const std::string& line, const std::string& other) {
  bool found = false;
  for (const Finding& finding : take_findings()) {
    const std::string message = finding.message();
    found |= finding.title == title && message.find(line) != std::string::npos &&
             message.find(other) != std::string::npos;
  }
  return found;
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
      EXPECT_TRUE(finding.title == "READ OF A STAGE THAT IS NOT FULL" ||
                  finding.title == "COPY INTO A STAGE THAT IS NOT EMPTY" ||
                  finding.title == "READ OF UNINITIALISED MEMORY" ||
                  finding.kind == FindingKind::kMbarrier)
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
        if (finding.kind != FindingKind::kAsyncCopy) continue;
        copy |= finding.title == "COPY INTO A STAGE THAT IS NOT EMPTY";
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
    EXPECT_EQ(findings[0].title, "ARRIVAL IN A LATER PHASE");
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

// All lanes of a warp wait, and the first begins the copies. Here another thread may answer before
// all lanes had their turn; on a GPU the lanes wait together.
__global__ void lanes_wait_together(const __grid_constant__ TensorMap map, int* out, int tiles) {
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
      ptx::mbarrier_wait(&empty, n % 2 ^ 1);
      if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, kBytes);
        ptx::tensor_copy(sK, map, 0, n * kRows, 0, 0, &full);
      }
    } else {
      ptx::mbarrier_wait(&full, n % 2);
      sum += sK[1];
      ptx::mbarrier_arrive(&empty);
    }
  }
  out[threadIdx.x] = sum;
}

TEST_F(TensorCopyTest, LanesWaitTogether) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    set_schedule({Schedule::Order::kRandom, seed});
    run(lanes_wait_together, {1, 33}, map(), out_.data(), 5);
    EXPECT_EQ(out_.values()[32], 5 * 1 + 512 * 10);
  }
}

// What a kernel of attention does, without its products. One warp has tiles of Q, K and V copied.
// All its lanes wait, though only one begins the copies. In the consumers every lane arrives. Each
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
        if (lane == 0) {
          ptx::mbarrier_arrive_expect_tx(&s.k_full[stage], kBytes);
          ptx::tensor_copy(s.sK[stage], map, 0, tile * kRows, 0, 0, &s.k_full[stage]);
        }
        if (skips != Skips::kValueRelease) ptx::mbarrier_wait(&s.v_empty[stage], phase ^ 1);
        if (lane == 0) {
          ptx::mbarrier_arrive_expect_tx(&s.v_full[stage], kBytes);
          ptx::tensor_copy(s.sV[stage], map, 0, tile * kRows, 0, 0, &s.v_full[stage]);  // brings V
        }
      } else {
        unsigned rQ[4], rK[4], rV[4];
        ptx::mbarrier_wait(&s.k_full[stage], phase);
        ptx::ldmatrix_x4(rQ, &s.sQ[warp][lane * 8]);
        ptx::ldmatrix_x4(rK, &s.sK[stage][lane * 8]);
        ptx::mbarrier_arrive(&s.k_empty[stage]);
        ptx::mbarrier_wait(&s.v_full[stage], phase);
        ptx::ldmatrix_x4_trans(rV, &s.sV[stage][lane * 8]);  // takes V
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

// ---- Bytes -------------------------------------------------------------------------------------

__global__ void expects(const __grid_constant__ TensorMap map, unsigned bytes, int copies,
                        bool expects_first) {
  __shared__ __align__(128) Half sK[2][kRows * kCols];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    if (expects_first) ptx::mbarrier_arrive_expect_tx(&full, bytes);                   // expects
    for (int n = 0; n < copies; ++n) ptx::tensor_copy(sK[n], map, 0, 0, 0, 0, &full);  // fetches
    if (!expects_first) ptx::mbarrier_arrive_expect_tx(&full, bytes);  // expects after
  }
  __syncwarp();
  ptx::mbarrier_wait(&full, 0);  // waits for bytes
}

TEST_F(TensorCopyTest, ExpectedBytes) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    for (const bool first : {false, true}) {
      run(expects, {1, 32}, map(), kBytes, 1, first);
      run(expects, {1, 32}, map(), 2 * kBytes, 2, first);
    }
  }
}

TEST_F(TensorCopyTest, FewerBytesThanExpected) {
  for (const bool first : {false, true}) {
    const Finding finding =
        fails(FindingKind::kMbarrier, 32, expects, map(), kBytes + 16, 1, first);
    EXPECT_EQ(finding.title, "DEADLOCK AT AN MBARRIER");
    says(finding, "   phase 0: 1 of 1 arrival, 1024 of 1040 bytes\n");
    says(finding, "  Warp 0 lane 0 waits at " + LINE_MARKED("waits for bytes"));
  }
}

TEST_F(TensorCopyTest, MoreBytesThanExpected) {
  for (const bool first : {false, true}) {
    const Finding finding =
        fails(FindingKind::kMbarrier, 32, expects, map(), kBytes - 16, 1, first);
    EXPECT_EQ(finding.title, "MORE BYTES THAN EXPECTED");
    says(finding, "Phase 0 expects 1008 bytes, and 1024 are copied.");
    says(finding, LINE_MARKED(first ? "expects" : "expects after"));
    EXPECT_EQ(finding.location, LINE_MARKED("fetches"));
  }
  // The phase ends with the first copy: the second one would count for the next phase.
  const Finding finding = fails(FindingKind::kMbarrier, 32, expects, map(), kBytes, 2, true);
  EXPECT_EQ(finding.title, "MORE BYTES THAN EXPECTED");
  says(finding, "Phase 0 has ended, and nothing orders its end before this copy");
  EXPECT_EQ(finding.location, LINE_MARKED("fetches"));
}

// ---- Proxies -----------------------------------------------------------------------------------

enum class Fence { kWriter, kCopier, kNone, kBeforeTheWrite, kAfterTheBarrier };

// All threads write a tile, then a copy replaces it. Reads need no fence.
__global__ void replace(const __grid_constant__ TensorMap map, int* out, Fence fence) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
  }
  if (fence == Fence::kBeforeTheWrite) ptx::fence_proxy_async();
  for (int i = t; i < kRows * kCols; i += 64) sK[i] = 7;  // writes by hand
  if (fence == Fence::kWriter) ptx::fence_proxy_async();
  __syncthreads();
  if (fence == Fence::kAfterTheBarrier && t != 0) ptx::fence_proxy_async();
  if (t == 0) {
    if (fence == Fence::kCopier) ptx::fence_proxy_async();
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // replaces
  }
  ptx::mbarrier_wait(&full, 0);
  out[t] = sK[t];
  __syncthreads();
  if (t == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, kRows, 0, 0, &full);  // replaces what was only read
  }
  ptx::mbarrier_wait(&full, 1);
}

TEST_F(TensorCopyTest, AWriteNeedsAProxyFence) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    for (const Fence fence : {Fence::kWriter, Fence::kCopier}) {
      run(replace, {2, 64}, map(), out_.data() /* both blocks write equal values */, fence);
      for (const Finding& finding : take_findings())
        EXPECT_EQ(finding.title, "RACE in global memory");
    }
    for (const Fence fence : {Fence::kNone, Fence::kBeforeTheWrite, Fence::kAfterTheBarrier}) {
      run(replace, {1, 64}, map(), out_.data(), fence);
      const Finding finding = only_finding(FindingKind::kAsyncCopy);
      EXPECT_EQ(finding.title, "WRITE WITHOUT A PROXY FENCE");
      says(finding, LINE_MARKED("writes by hand"));
      EXPECT_EQ(finding.location, LINE_MARKED("replaces"));
    }
  }
}

// The fence of a warp's writes is passed on by an mbarrier.
__global__ void fenced_arrival(const __grid_constant__ TensorMap map, bool fence) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full, empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&empty, 32);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    sK[threadIdx.x] = 7;  // writes one row
    if (fence) ptx::fence_proxy_async();
    ptx::mbarrier_arrive(&empty);
  } else if (threadIdx.x == 32) {
    ptx::mbarrier_wait(&empty, 0);
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // replaces the row
    ptx::mbarrier_wait(&full, 0);
  }
}

TEST_F(TensorCopyTest, AnArrivalPassesTheFenceOn) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    run(fenced_arrival, {1, 64}, map(), true);
    ASSERT_TRUE(take_findings().empty());
    run(fenced_arrival, {1, 64}, map(), false);
    const Finding finding = only_finding(FindingKind::kAsyncCopy);
    EXPECT_EQ(finding.title, "WRITE WITHOUT A PROXY FENCE");
    says(finding, LINE_MARKED("writes one row"));
    EXPECT_EQ(finding.location, LINE_MARKED("replaces the row"));
  }
}

enum class Init { kFence, kProxyFence, kNoFence };

__global__ void init_and_copy(const __grid_constant__ TensorMap map, Init init) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);  // begins
    if (init == Init::kFence) ptx::fence_mbarrier_init();
    if (init == Init::kProxyFence) ptx::fence_proxy_async();
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // counts on it
    ptx::mbarrier_wait(&full, 0);
  }
}

TEST_F(TensorCopyTest, AnMbarrierNeedsItsFence) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    run(init_and_copy, {1, 64}, map(), Init::kFence);
    run(init_and_copy, {1, 64}, map(), Init::kProxyFence);
    ASSERT_TRUE(take_findings().empty());
    run(init_and_copy, {1, 64}, map(), Init::kNoFence);
    const Finding finding = only_finding(FindingKind::kMbarrier);
    EXPECT_EQ(finding.title, "MBARRIER WITHOUT ITS FENCE");
    says(finding, LINE_MARKED("begins"));
    EXPECT_EQ(finding.location, LINE_MARKED("counts on it"));
  }
}

// ---- Writes ------------------------------------------------------------------------------------

enum class Writes { kAfterAll, kAfterTheWait, kInFlight };

// A warp writes into what was copied, and others read both.
__global__ void write_into(const __grid_constant__ TensorMap map, int* out, Writes when) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // brings
  }
  __syncthreads();
  if (when != Writes::kInFlight) ptx::mbarrier_wait(&full, 0);
  if (when == Writes::kAfterAll) {
    out[t] = sK[2 * t + 1];
    __syncthreads();
  }
  if (t < 32) sK[2 * t] = 1000 + t;  // writes into it
  if (when == Writes::kInFlight) ptx::mbarrier_wait(&full, 0);
  __syncthreads();
  out[t] = sK[t];  // reads both
}

TEST_F(TensorCopyTest, WritesIntoWhatWasCopied) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    for (const Writes when : {Writes::kAfterAll, Writes::kAfterTheWait}) {
      run(write_into, {1, 64}, map(), out_.data(), when);
      EXPECT_EQ(out_.values()[62], 1031);
      EXPECT_EQ(out_.values()[63], 63);
      ASSERT_TRUE(take_findings().empty());
    }
    run(write_into, {1, 64}, map(), out_.data(), Writes::kInFlight);
    const Finding finding = only_finding(FindingKind::kAsyncCopy);
    EXPECT_EQ(finding.title, "WRITE OVER A COPY IN FLIGHT");
    says(finding, LINE_MARKED("brings"));
    EXPECT_EQ(finding.location, LINE_MARKED("writes into it"));
  }
}

__global__ void read_and_write(const __grid_constant__ TensorMap map, int* out, bool sync) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);
  }
  __syncthreads();
  ptx::mbarrier_wait(&full, 0);
  if (t < 32) out[t] = sK[t];  // reads the copy
  if (sync) __syncthreads();
  if (t >= 32) sK[t - 32] = 1;  // writes over it
}

TEST_F(TensorCopyTest, WritesOverWhatOthersRead) {
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    run(read_and_write, {1, 64}, map(), out_.data(), true);
    ASSERT_TRUE(take_findings().empty());
    run(read_and_write, {1, 64}, map(), out_.data(), false);
    const Finding finding = only_finding(FindingKind::kSharedRace);
    says(finding, LINE_MARKED("reads the copy"));
    says(finding, LINE_MARKED("writes over it"));
  }
}

// Halves of a copied tile are replaced one after the other, each when its readers are done.
__global__ void replace_halves(const __grid_constant__ TensorMap whole,
                               const __grid_constant__ TensorMap half, int* out) {
  __shared__ __align__(128) Half sK[2 * kRows * kCols];
  __shared__ std::uint64_t full, again, empty[2];
  const int t = threadIdx.x, warp = t / 32;
  if (t == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&again, 2);
    for (std::uint64_t& barrier : empty) ptx::mbarrier_init(&barrier, 32);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, 2 * kBytes);
    ptx::tensor_copy(sK, whole, 0, 0, 0, 0, &full);
  }
  __syncthreads();
  ptx::mbarrier_wait(&full, 0);
  if (warp < 2) {
    out[t] = sK[warp * kRows * kCols + t % 32];
    ptx::mbarrier_arrive(&empty[warp]);
  } else if (t % 32 == 0) {
    for (int n = 0; n < 2; ++n) {
      ptx::mbarrier_wait(&empty[n], 0);
      ptx::mbarrier_arrive_expect_tx(&again, kBytes);
      ptx::tensor_copy(sK + n * kRows * kCols, half, 0, 0, 0, 0, &again);
    }
    ptx::mbarrier_wait(&again, 0);
  }
}

TEST_F(TensorCopyTest, PartsAreReplacedOnTheirOwn) {
  TensorMap whole = map();
  whole.arguments.box[1] = 2 * kRows;
  for (const Schedule& schedule : all_schedules()) {
    set_schedule(schedule);
    run(replace_halves, {1, 96}, whole, map(), out_.data());
    EXPECT_EQ(out_.values()[32], kRows * kCols);
  }
}

enum class Changes { kBefore, kInFlight, kAfter };

__global__ void change_source(const __grid_constant__ TensorMap map, Half* in, Changes when) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    if (when == Changes::kBefore) in[3] = 1;
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // copies in
    if (when == Changes::kInFlight) in[3] = 1;     // changes in
  }
  ptx::mbarrier_wait(&full, 0);
  if (when == Changes::kAfter && threadIdx.x == 5) in[3] = 1;
}

TEST_F(TensorCopyTest, SourceOverwritten) {
  run(change_source, {1, 1}, map(), in_.data(), Changes::kBefore);
  run(change_source, {1, 1}, map(), in_.data(), Changes::kAfter);
  ASSERT_TRUE(take_findings().empty());
  run(change_source, {1, 1}, map(), in_.data(), Changes::kInFlight);
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  EXPECT_EQ(finding.title, "SOURCE OF A COPY OVERWRITTEN");
  EXPECT_EQ(finding.location, LINE_MARKED("changes in"));
  says(finding, LINE_MARKED("copies in"));
}

__global__ void copy_for_ldmatrix(const __grid_constant__ TensorMap map, unsigned* out, bool wait) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  const int lane = threadIdx.x;
  if (lane == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sK, map, 0, 0, 0, 0, &full);  // copies rows
  }
  __syncwarp();
  if (wait) ptx::mbarrier_wait(&full, 0);
  unsigned r[4];
  ptx::ldmatrix_x4(r, &sK[lane * 8]);  // loads rows
  out[lane] = r[0];
  if (!wait) ptx::mbarrier_wait(&full, 0);
}

TEST_F(TensorCopyTest, LdmatrixMeetsACopy) {
  const Array<unsigned> out(32);
  run(copy_for_ldmatrix, {1, 32}, map(), out.data(), true);
  ASSERT_TRUE(take_findings().empty());
  run(copy_for_ldmatrix, {1, 32}, map(), out.data(), false);
  const Finding finding = only_finding(FindingKind::kAsyncCopy);
  EXPECT_EQ(finding.title, "READ OF A STAGE THAT IS NOT FULL");
  EXPECT_EQ(finding.location, LINE_MARKED("loads rows"));
  says(finding, LINE_MARKED("copies rows"));
}

// ---- Memory ------------------------------------------------------------------------------------

enum class Operands { kRight, kMisaligned, kToGlobal, kPastTheArray, kPastTheEnd };

__global__ void copy_operands(const __grid_constant__ TensorMap map, Half* global,
                              Operands operands) {
  __shared__ __align__(128) Half sK[kRows * kCols];
  __shared__ std::uint64_t full;
  ptx::mbarrier_init(&full, 1);
  ptx::fence_mbarrier_init();
  Half* to = sK;
  if (operands == Operands::kMisaligned) to += 8;
  if (operands == Operands::kToGlobal) to = global;
  if (operands == Operands::kPastTheArray) to += kRows * kCols / 2;
  ptx::mbarrier_arrive_expect_tx(&full, kBytes);
  ptx::tensor_copy(to, map, 0, operands == Operands::kPastTheEnd ? 19 * kRows : 0, 0, 0,
                   &full);  // copies there
  ptx::mbarrier_wait(&full, 0);
}

TEST_F(TensorCopyTest, Operands) {
  run(copy_operands, {1, 1}, map(), in_.data(), Operands::kRight);
  ASSERT_TRUE(take_findings().empty());
  const auto fails = [&](FindingKind kind, Operands operands) {
    return TensorCopyTest::fails(kind, 1, copy_operands, map(), in_.data(), operands);
  };
  says(fails(FindingKind::kMisaligned, Operands::kMisaligned),
       "A box begins at a multiple of 128 bytes.");
  says(fails(FindingKind::kOutOfBounds, Operands::kToGlobal),
       "cp.async.bulk.tensor writes shared memory; this is global memory.");
  says(fails(FindingKind::kOutOfBounds, Operands::kPastTheArray),
       "The box has 1024 bytes and reaches past the end of the array.");
  TensorMap too_long = map();
  too_long.arguments.extents[1] = 21 * kRows;
  run(copy_operands, {1, 1}, too_long, in_.data(), Operands::kPastTheEnd);
  ASSERT_TRUE(take_findings().empty());
  too_long.arguments.data = in_.data() + kRows * kCols;
  run(copy_operands, {1, 1}, too_long, in_.data(), Operands::kPastTheEnd);
  says(only_finding(FindingKind::kOutOfBounds), "past the end of an allocation of 20480 bytes.");
}

TEST_F(TensorCopyTest, OfUninitialisedMemory) {
  const Array<Half> empty(20 * kRows * kCols);
  TensorMap of_nothing = map();
  of_nothing.arguments.data = empty.data();
  run(copy_operands, {1, 1}, of_nothing, in_.data(), Operands::kRight);
  only_finding(FindingKind::kUninitialised);
}

// Sectors are those of the rows that exist; shared memory is written past the lanes' pipe.
TEST_F(TensorCopyTest, Counts) {
  TensorMap ragged = map();
  ragged.arguments.extents[1] = 5;
  run(copy_operands, {1, 1}, ragged, in_.data(), Operands::kRight);
  EXPECT_EQ(counts().global_read_bytes, 5u * 128);
  EXPECT_EQ(counts().global_read_sectors, 5u * 4);
  EXPECT_EQ(counts().global_read_requests, 1u);
  EXPECT_EQ(counts().shared_write_bytes, 0u);
  EXPECT_EQ(counts().shared_requests, 0u);
  EXPECT_EQ(counts().shared_wavefronts, 0u);
  ASSERT_EQ(line_counts().size(), 1u);
  EXPECT_EQ(line_counts()[0].bytes, 5u * 128);
  // Rows that begin in the middle of a sector.
  reset_counts();
  ragged.arguments.data = in_.data() + 8;
  run(copy_operands, {1, 1}, ragged, in_.data(), Operands::kRight);
  EXPECT_EQ(counts().global_read_bytes, 5u * 128);
  EXPECT_EQ(counts().global_read_sectors, 5u * 4 + 1);
}

}  // namespace
}  // namespace cuflash::simt
