// Races: each planted race is reported, and each correct twin is silent.
#include <cuda_fp16.h>

#include "support.h"

namespace cuflash::simt {
namespace {

constexpr unsigned kAll = 0xffffffffu;

// ---- Shared memory -----------------------------------------------------------------------------

// Each of 64 threads passes a value to the thread that stands `distance` before it.
enum class Order { kNothing, kBarrier, kSyncWarp, kBallot, kShuffle };

template <Order kOrder>
__global__ void pass_on(float* out, int distance) {
  __shared__ float box[64];
  const int t = threadIdx.x;
  box[t] = 0.f;
  __syncthreads();
  box[t] = static_cast<float>(t);  // writes the box
  if constexpr (kOrder == Order::kBarrier) __syncthreads();
  if constexpr (kOrder == Order::kSyncWarp) __syncwarp();
  if constexpr (kOrder == Order::kBallot) __ballot_sync(kAll, 1);
  if constexpr (kOrder == Order::kShuffle) __shfl_sync(kAll, t, 0);
  const float got = box[(t & ~(distance - 1)) | ((t + 1) & (distance - 1))];  // reads the box
  out[t] = got;
}

class SharedRace : public AccessTest {
 protected:
  Array<float> out_{64};
};

TEST_F(SharedRace, MissingBarrier) {
  run(pass_on<Order::kNothing>, {1, 64}, out_.data(), 64);
  const Finding race = only_finding(FindingKind::kSharedRace);
  EXPECT_EQ(race.kernel,
            "cuflash::simt::(anonymous namespace)::pass_on<"
            "(cuflash::simt::(anonymous namespace)::Order)0>");
  EXPECT_EQ(race.array, "box");
  // In order, thread 0 reads box[1] before thread 1 writes it: the write comes second. Only thread
  // 63 reads what was written before, and completes the 64 pairs. The pair shown is of two warps.
  EXPECT_EQ(race.location, LINE_MARKED("writes the box"));
  EXPECT_EQ(race.count, 64u);
  ASSERT_EQ(race.accesses.size(), 2u);
  EXPECT_EQ(race.accesses[0].location, LINE_MARKED("writes the box"));
  EXPECT_EQ(race.accesses[0].warp, 1);
  EXPECT_EQ(race.accesses[0].lane, 0);
  EXPECT_EQ(race.accesses[1].location, LINE_MARKED("reads the box"));
  EXPECT_EQ(race.accesses[1].warp, 0);
  EXPECT_EQ(race.accesses[1].lane, 31);
  EXPECT_EQ(race.accesses[1].tile, "") << "it is in none";
  says(race, "RACE in shared memory: ");
  says(race, ", block (0,0,0)\n  box[32] (elements of 4 bytes)\n");
  // The report shows the accesses in the order in which each thread makes them.
  says(race,
       "\n   write  warp 1 lane 0    " + LINE_MARKED("writes the box") +
           "   box[t] = static_cast<float>(t);  // writes the box\n   read   warp 0 lane 31   " +
           LINE_MARKED("reads the box") + "   const float got = box[");
  says(race, "\n  No barrier orders " + LINE_NUMBER("writes the box") + " before " +
                 LINE_NUMBER("reads the box") + ".  63 similar findings.\n");
}

TEST_F(SharedRace, BarrierOrders) {
  run(pass_on<Order::kBarrier>, {1, 64}, out_.data(), 64);
  EXPECT_EQ(out_.values()[62], 63.f);
}

TEST_F(SharedRace, SyncWarpOrdersLanesOfOneWarp) {
  run(pass_on<Order::kSyncWarp>, {1, 64}, out_.data(), 32);
}

// Votes and shuffles wait for the lanes, but imply no memory barrier.
TEST_F(SharedRace, VotesAndShufflesOrderNoMemory) {
  under_all_schedules([&] {
    run(pass_on<Order::kBallot>, {1, 64}, out_.data(), 32);
    says(only_finding(FindingKind::kSharedRace), "No barrier and no __syncwarp() orders ");
    run(pass_on<Order::kShuffle>, {1, 64}, out_.data(), 32);
    EXPECT_EQ(only_finding(FindingKind::kSharedRace).count, 64u);
  });
}

TEST_F(SharedRace, MissingSyncWarp) {
  run(pass_on<Order::kNothing>, {1, 32}, out_.data(), 32);
  says(only_finding(FindingKind::kSharedRace),
       "No barrier and no __syncwarp() orders " + LINE_NUMBER("writes the box") + " before ");
}

TEST_F(SharedRace, SyncWarpDoesNotOrderWarps) {
  run(pass_on<Order::kSyncWarp>, {1, 64}, out_.data(), 64);
  const Finding race = only_finding(FindingKind::kSharedRace);
  // Lanes 31 and 63 read from the other warp.
  EXPECT_EQ(race.count, 2u);
  says(race, "  No barrier orders " + LINE_NUMBER("writes the box") + " before " +
                 LINE_NUMBER("reads the box") + ".  1 similar finding.\n");
}

// The second barrier of a loop protects the readers from the next round's writers.
template <bool kSecond>
__global__ void rounds(float* out) {
  __shared__ float tile[64];
  const int t = threadIdx.x;
  float sum = 0.f;
  for (int round = 0; round < 4; ++round) {
    tile[t] = static_cast<float>(round);  // next round
    __syncthreads();
    for (int i = 0; i < 64; ++i) sum += tile[i];  // this round
    if constexpr (kSecond) __syncthreads();
  }
  out[t] = sum;
}

TEST_F(SharedRace, WriteAfterRead) {
  run(rounds<false>, {1, 64}, out_.data());
  const Finding race = only_finding(FindingKind::kSharedRace);
  EXPECT_EQ(race.array, "tile");
  says(race, "No barrier orders " + LINE_NUMBER("this round") + " before " +
                 LINE_NUMBER("next round") + '.');
}

TEST_F(SharedRace, WriteAfterReadWithBarrier) { run(rounds<true>, {1, 64}, out_.data()); }

// Still a race: neither C++ nor CUDA says that equal values make it harmless.
__global__ void same_value(float* out) {
  __shared__ float flag[2];
  flag[threadIdx.x / 32] = 1.f;
  out[threadIdx.x] = flag[0];
}

TEST_F(SharedRace, EqualValuesDoNotExcuse) {
  run(same_value, {1, 32}, out_.data());
  says(only_finding(FindingKind::kSharedRace), "flag[0]");
}

// An unpadded transpose of 32 x 32. Without a barrier thread (x, y) reads what thread (y, x)
// writes: every pair off the diagonal races, 1,024 - 32 = 992.
template <bool kBarrier>
__global__ void transpose(const float* in, float* out) {
  __shared__ float tile[32][32];
  const int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = 0.f;
  __syncthreads();
  tile[y][x] = in[y * 32 + x];
  if constexpr (kBarrier) __syncthreads();
  out[y * 32 + x] = tile[x][y];
}

TEST_F(SharedRace, TransposeCountsEveryPair) {
  const Array<float> in(1024, 1.f, "in"), out(1024);
  run(transpose<true>, {1, dim3(32, 32)}, in.data(), out.data());
  under_all_schedules([&] {
    run(transpose<false>, {1, dim3(32, 32)}, in.data(), out.data());
    const Finding race = only_finding(FindingKind::kSharedRace);
    EXPECT_EQ(race.count, 992u);
    says(race, "   write  thread (");
  });
}

// ---- Granules ----------------------------------------------------------------------------------

// The same shared bytes as floats, then as halves, then as single bytes. `wrong` makes a thread
// write its neighbour's element of the last kind.
__global__ void ever_smaller(unsigned char* out, int wrong_half, int wrong_byte) {
  __shared__ float words[32];
  const int t = threadIdx.x;
  words[t] = 1.f;
  __syncthreads();
  const auto halves = reinterpret_cast<__half*>(words);
  halves[t + wrong_half] = __float2half(1.f);
  halves[t + 32] = __float2half(2.f);
  __syncthreads();
  const auto bytes = reinterpret_cast<unsigned char*>(words);
  for (int i = t; i < 128; i += 32) bytes[i] = static_cast<unsigned char>(i);
  if (t == 3) bytes[t + wrong_byte] = 7;
  __syncthreads();
  out[t] = bytes[4 * t];
}

TEST_F(SharedRace, NeighbouringHalvesAndBytesAreApart) {
  const Array<unsigned char> out(32);
  run(ever_smaller, {1, 32}, out.data(), 0, 0);
  EXPECT_EQ(out.values()[5], 20);
}

TEST_F(SharedRace, TheSameHalfIsCaught) {
  const Array<unsigned char> out(32);
  // Thread 31 and thread 0 both write half 32.
  run(ever_smaller, {1, 32}, out.data(), 1, 0);
  EXPECT_EQ(only_finding(FindingKind::kSharedRace).count, 1u);
}

TEST_F(SharedRace, TheSameByteIsCaught) {
  const Array<unsigned char> out(32);
  run(ever_smaller, {1, 32}, out.data(), 0, 1);
  EXPECT_EQ(only_finding(FindingKind::kSharedRace).count, 1u);
}

// ---- Global memory -----------------------------------------------------------------------------

class GlobalRace : public AccessTest {};

// Every thread reads its own element and writes the one `distance` further.
__global__ void shift(float* data, int distance) {
  const int n = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const float own = data[n];     // own element
  data[n + distance] = own + 1;  // other element
}

TEST_F(GlobalRace, BetweenThreads) {
  Array<float> data(65, 0.f, "data");
  run(shift, {1, 64}, data.data(), 1);
  const Finding race = only_finding(FindingKind::kGlobalRace);
  EXPECT_EQ(race.array, "data");
  EXPECT_EQ(race.location, LINE_MARKED("own element"));
  EXPECT_EQ(race.count, 63u);
  says(race,
       "RACE in global memory: cuflash::simt::(anonymous namespace)::shift, block (0,0,0)\n"
       "  data[32] (elements of 4 bytes)\n");
  says(race, "   read   warp 1 lane 0    " + LINE_MARKED("own element"));
  says(race, "   write  warp 0 lane 31   " + LINE_MARKED("other element"));
}

TEST_F(GlobalRace, BetweenBlocks) {
  Array<float> data(96, 0.f, "data");
  under_all_schedules([&] {
    run(shift, {2, 32}, data.data(), 32);
    const Finding race = only_finding(FindingKind::kGlobalRace);
    EXPECT_EQ(race.count, 32u);
    says(race, "Nothing orders the blocks of one launch.");
    says(race, "block (1,0,0)");
    says(race, "block (0,0,0)");
  });
}

TEST_F(GlobalRace, OwnElementsAreSilent) {
  Array<float> data(64, 0.f);
  run(shift, {2, 32}, data.data(), 0);
}

TEST_F(GlobalRace, TwoLaunchesAreOrdered) {
  Array<float> data(128, 0.f);
  run(shift, {1, 32}, data.data(), 32);
  run(shift, {1, 64}, data.data(), 64);
  EXPECT_EQ(data.values()[96], 2.f);
}

__global__ void count_up(int* counter, int* out, bool plain) {
  if (plain && threadIdx.x == 40) {
    *counter += 1;  // plain
  } else {
    atomicAdd(counter, 1);  // atomic
  }
  if (out != nullptr) out[blockIdx.x * blockDim.x + threadIdx.x] = atomicMax(counter, 0);
}

TEST_F(GlobalRace, AtomicsDoNotRace) {
  Array<int> counter(1, 0), out(256);
  run(count_up, {4, 64}, counter.data(), out.data(), false);
  EXPECT_EQ(counter.values()[0], 256);
}

TEST_F(GlobalRace, AtomicAgainstPlain) {
  Array<int> counter(1, 0, "counter");
  run(count_up, {1, 64}, counter.data(), static_cast<int*>(nullptr), true);
  expect_one_of({"RACE in global memory"}, {"plain", "atomic"});
}

// Every thread of every block reads all of `in`; the last thread of all then overwrites one.
__global__ void read_all(float* in, float* out, int victim) {
  float sum = 0.f;
  for (int i = 0; i < 32; ++i) sum += in[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (victim >= 0 && blockIdx.x == 2 && threadIdx.x == 95) in[victim] = 0.f;  // overwrites
}

TEST_F(GlobalRace, ManyReadersAndOneWriter) {
  Array<float> in(32, 1.f, "in"), out(4 * 96);
  under_all_schedules([&] {
    run(read_all, {4, 96}, in.data(), out.data(), -1);
    run(read_all, {4, 96}, in.data(), out.data(), 17);
    const Finding race = only_finding(FindingKind::kGlobalRace);
    says(race, "in[17]");
    says(race, LINE_MARKED("overwrites"));
  });
}

TEST_F(GlobalRace, HalvesOfDifferentBlocks) {
  // Blocks write neighbouring halves of one word: nothing is wrong.
  Array<__half> data(64);
  void (*kernel)(__half*, bool) = [](__half* p, bool same) {
    p[same ? threadIdx.x : 2 * threadIdx.x + blockIdx.x] = __float2half(1.f);
  };
  run(kernel, {2, 32}, data.data(), false);
  run(kernel, {2, 32}, data.data(), true);
  EXPECT_EQ(only_finding(FindingKind::kGlobalRace).count, 32u);
}

}  // namespace
}  // namespace cuflash::simt
