// Stores of boxes: what they read and when, what they write and when. Planted faults, each with its
// correct twin.
#include "device/ptx/cp_async.h"
#include "device/ptx/named_barrier.h"
#include "device/ptx/tensor_store.h"
#include "tensor_copy_support.h"

namespace cuflash::simt {
namespace {

class TensorStoreTest : public TensorCopyTest {
 protected:
  // Of the memory that stores write: boxes of kRows rows, in a tensor of so many rows.
  TensorMap out_map(int rows = kTensorRows, int cols = kCols) const {
    return map_of(stored_.data(), rows, kRows, cols);
  }
  Array<Half> stored_{kTensorRows * kCols, 0, "stored"};
};

// ---- The source --------------------------------------------------------------------------------

enum class Source {
  kRight,
  kNotFenced,
  kFencedTooEarly,
  kNoBarrier,
  kNotCommitted,
  kTooFewAwaited,
  kNotAnnounced,
  kNeverAwaited
};

// All threads fill a tile, the first has it stored. Two buffers take turns.
__global__ void store_tiles(const __grid_constant__ TensorMap map, int tiles, Source how) {
  __shared__ __align__(128) Half sO[2][kRows * kCols];
  const int t = threadIdx.x;
  for (int n = 0; n < tiles; ++n) {
    if (t == 0 && how == Source::kTooFewAwaited) ptx::tensor_store_wait_read<2>();
    if (t == 0 && how != Source::kTooFewAwaited) ptx::tensor_store_wait_read<1>();
    if (how != Source::kNotAnnounced) __syncthreads();
    if (how == Source::kFencedTooEarly) ptx::fence_proxy_async();
    for (int i = t; i < kRows * kCols; i += 64) sO[n % 2][i] = 1000 * n + i;  // fills
    if (how != Source::kNotFenced && how != Source::kFencedTooEarly) ptx::fence_proxy_async();
    if (how != Source::kNoBarrier) __syncthreads();
    if (t != 0) continue;
    ptx::tensor_store(map, 0, n * kRows, 0, 0, sO[n % 2]);  // stores
    if (how != Source::kNotCommitted) ptx::tensor_store_commit();
  }
  if (t == 0 && how != Source::kNeverAwaited) ptx::tensor_store_wait_read<0>();
}

TEST_F(TensorStoreTest, TwoBuffersTakeTurns) {
  constexpr int kTiles = 5;
  under_all_schedules([&] {
    stored_.set(std::vector<Half>(kTensorRows * kCols));
    run(store_tiles, {1, 64}, out_map(), kTiles, Source::kRight);
    const std::vector<Half> stored = stored_.values();
    for (int i = 0; i < kTensorRows * kCols; ++i) {
      const int n = i / (kRows * kCols), expected = 1000 * n + i % (kRows * kCols);
      ASSERT_EQ(stored[i], n < kTiles ? static_cast<Half>(expected) : 0) << i;
    }
  });
}

// Threads that have nothing to store may commit, too, and wait for that.
__global__ void commit_nothing(const __grid_constant__ TensorMap map) {
  __shared__ __align__(128) Half sO[kRows * kCols];
  ptx::tensor_store_commit();
  for (int i = threadIdx.x; i < kRows * kCols; i += 64) sO[i] = i;
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) ptx::tensor_store(map, 0, 0, 0, 0, sO);
  ptx::tensor_store_commit();
  ptx::tensor_store_wait_read<0>();
}

TEST_F(TensorStoreTest, AGroupMayBeEmpty) {
  under_all_schedules([&] {
    run(commit_nothing, {1, 64}, out_map());
    const std::vector<Half> stored = stored_.values();
    for (int i = 0; i < kRows * kCols; ++i) ASSERT_EQ(stored[i], static_cast<Half>(i)) << i;
  });
}

TEST_F(TensorStoreTest, TheSourceMustBeThere) {
  under_all_schedules([&] {
    for (const Source how : {Source::kNotFenced, Source::kFencedTooEarly}) {
      run(store_tiles, {1, 64}, out_map(), 1, how);
      expect_report(only_finding(FindingKind::kAsyncCopy), "WRITE WITHOUT A PROXY FENCE", "stores",
                    {"fills"});
    }
    run(store_tiles, {1, 64}, out_map(), 1, Source::kNoBarrier);
    expect_one_of({"RACE in shared memory", "SOURCE OF A STORE OVERWRITTEN"}, {"stores"});
  });
}

TEST_F(TensorStoreTest, TheSourceMustStay) {
  under_all_schedules([&] {
    for (const Source how : {Source::kTooFewAwaited, Source::kNotCommitted}) {
      run(store_tiles, {1, 64}, out_map(), 3, how);
      EXPECT_TRUE(finds("SOURCE OF A STORE OVERWRITTEN", {"stores", "fills"}));
    }
    run(store_tiles, {1, 64}, out_map(), 3, Source::kNotAnnounced);
    expect_one_of({"RACE in shared memory", "SOURCE OF A STORE OVERWRITTEN"}, {"stores", "fills"});
  });
}

TEST_F(TensorStoreTest, ABlockStaysUntilItsStoresHaveRead) {
  run(store_tiles, {1, 64}, out_map(), 1, Source::kNeverAwaited);
  expect_report(only_finding(FindingKind::kAsyncCopy), "STORE WITHOUT A WAIT", "stores");
}

enum class Unfinished { kNone, kBox, kChunks };

// A tile is stored that copies bring: a box, then by other threads 16 bytes each.
__global__ void store_copied(const __grid_constant__ TensorMap in,
                             const __grid_constant__ TensorMap out, const Half* memory,
                             Unfinished what) {
  __shared__ __align__(128) Half sO[2][kRows * kCols];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  begin(full);
  if (t == 0) {
    ptx::mbarrier_arrive_expect_tx(&full, kBytes);
    ptx::tensor_copy(sO[0], in, 0, 0, 0, 0, &full);  // brings a box
  }
  ptx::cp_async_16(&sO[1][8 * t], memory + 8 * t);  // brings a chunk
  ptx::cp_async_commit();
  if (what != Unfinished::kChunks) ptx::cp_async_wait<0>();
  ptx::fence_proxy_async();
  __syncthreads();
  if (t == 63) {
    if (what != Unfinished::kBox) ptx::mbarrier_wait(&full, 0);
    for (int n = 0; n < 2; ++n) ptx::tensor_store(out, 0, n * kRows, 0, 0, sO[n]);  // stores it on
    ptx::tensor_store_commit();
    ptx::tensor_store_wait_read<0>();
  }
  if (t == 0) ptx::mbarrier_wait(&full, 0);
  ptx::cp_async_wait<0>();
}

TEST_F(TensorStoreTest, TheSourceMayBeACopyThatHasEnded) {
  under_all_schedules([&] {
    const auto store = [&](Unfinished what) {
      run(store_copied, {1, 64}, map(), out_map(), in_.data(), what);
    };
    store(Unfinished::kNone);
    no_findings();
    EXPECT_EQ(stored_.values()[kRows * kCols + 63], 63);
    store(Unfinished::kBox);
    EXPECT_TRUE(finds("READ OF A STAGE THAT IS NOT FULL", {"brings a box", "stores it on"}));
    store(Unfinished::kChunks);
    EXPECT_TRUE(finds("READ OF A COPY IN FLIGHT", {"brings a chunk", "stores it on"}));
  });
}

// ---- The target --------------------------------------------------------------------------------

enum class Target { kRight, kOnlyRead, kNotAwaited, kNoBarrier, kOverwritten, kStoredTwice };

// Threads read what a store has written.
__global__ void read_back(const __grid_constant__ TensorMap map, Half* memory, int* out,
                          Target how) {
  __shared__ __align__(128) Half sO[kRows * kCols];
  const int t = threadIdx.x;
  for (int i = t; i < kRows * kCols; i += 64) sO[i] = i;
  ptx::fence_proxy_async();
  __syncthreads();
  if (t == 0) {
    ptx::tensor_store(map, 0, 0, 0, 0, sO);                                   // stores it
    if (how == Target::kStoredTwice) ptx::tensor_store(map, 0, 4, 0, 0, sO);  // stores it again
    ptx::tensor_store_commit();
    if (how == Target::kOnlyRead) ptx::tensor_store_wait_read<0>();
    if (how == Target::kRight || how == Target::kNoBarrier) ptx::tensor_store_wait<0>();
  }
  if (how != Target::kNoBarrier) __syncthreads();
  if (how == Target::kOverwritten) memory[t] = 1;  // overwrites it
  if (how != Target::kOverwritten && how != Target::kStoredTwice) out[t] = memory[t];  // reads it
  if (t == 0) ptx::tensor_store_wait_read<0>();
}

TEST_F(TensorStoreTest, ItsEndMustBeAwaited) {
  under_all_schedules([&] {
    run(read_back, {1, 64}, out_map(), stored_.data(), out_.data(), Target::kRight);
    EXPECT_EQ(out_.values()[63], 63);
    no_findings();
    for (const Target how : {Target::kOnlyRead, Target::kNotAwaited}) {
      run(read_back, {1, 64}, out_map(), stored_.data(), out_.data(), how);
      const Finding finding = only_finding(FindingKind::kAsyncCopy);
      expect_report(finding, "READ OF A STORE IN FLIGHT", "reads it", {"stores it"});
      EXPECT_EQ(finding.array, "stored");
      EXPECT_NE(out_.values()[63], 63);
    }
    run(read_back, {1, 64}, out_map(), stored_.data(), out_.data(), Target::kNoBarrier);
    expect_one_of({"RACE in global memory", "READ OF A STORE IN FLIGHT"}, {"reads it"});
  });
}

TEST_F(TensorStoreTest, NobodyElseWritesThere) {
  under_all_schedules([&] {
    run(read_back, {1, 64}, out_map(), stored_.data(), out_.data(), Target::kOverwritten);
    EXPECT_TRUE(finds("WRITE OVER A STORE IN FLIGHT", {"stores it", "overwrites it"}));
    run(read_back, {1, 64}, out_map(), stored_.data(), out_.data(), Target::kStoredTwice);
    EXPECT_TRUE(finds("WRITE OVER A STORE IN FLIGHT", {"stores it", "stores it again"}));
    run(store_tiles, {2, 64}, out_map(), 1, Source::kRight);
    const Finding race = only_finding(FindingKind::kGlobalRace);
    EXPECT_EQ(race.location, LINE_MARKED("stores"));
    says(race, "Nothing orders the blocks of one launch.");
  });
}

// ---- Bounds and counts -------------------------------------------------------------------------

__global__ void store_box(const __grid_constant__ TensorMap map, int x0, int x1) {
  __shared__ __align__(128) Half sO[kRows * kCols];
  for (int i = threadIdx.x; i < kRows * kCols; i += 32) sO[i] = 1 + i;
  ptx::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x != 0) return;
  ptx::tensor_store(map, x0, x1, 0, 0, sO);  // stores a box
  ptx::tensor_store_commit();
  ptx::tensor_store_wait_read<0>();
}

TEST_F(TensorStoreTest, WhatLiesPastTheEndIsLeftOut) {
  constexpr int kTensor = 13, kWidth = 40;
  const int firsts[][2] = {{0, 0}, {0, 8}, {8, 3}, {32, 12}, {48, 0}, {0, 13}};
  for (const auto& first : firsts) {
    stored_.set(std::vector<Half>(kTensorRows * kCols));
    reset_counts();
    run(store_box, {1, 32}, out_map(kTensor, kWidth), first[0], first[1]);
    const std::vector<Half> stored = stored_.values();
    std::uint64_t elements = 0;
    for (int i = 0; i < kTensorRows * kCols; ++i) {
      const int row = i / kCols, col = i % kCols, r = row - first[1], c = col - first[0];
      const bool inside =
          row < kTensor && col < kWidth && r >= 0 && r < kRows && c >= 0 && c < kCols;
      elements += inside ? 1 : 0;
      ASSERT_EQ(stored[i], inside ? 1 + r * kCols + c : 0) << row << ' ' << col;
    }
    EXPECT_EQ(counts().global_write_bytes, 2 * elements);
    EXPECT_EQ(counts().global_write_requests, 1u);
  }
  const LineCounts line = counts_of_line(LINE_NUMBER("stores a box"), false, true);
  EXPECT_EQ(line.requests, 1u);
  reset_counts();
  run(store_box, {1, 32}, out_map(), 0, 0);
  EXPECT_EQ(counts().global_write_sectors, kBytes / 32u);
  EXPECT_EQ(counts().shared_read_bytes, 0u);
}

TEST_F(TensorStoreTest, AddressesAreChecked) {
  EXPECT_EQ(fails(FindingKind::kMisaligned, 32, store_box, out_map(), 4, 0).location,
            LINE_MARKED("stores a box"));
  says(fails(FindingKind::kOutOfBounds, 32, store_box, out_map(), 0, -3),
       "No coordinate of a store may be negative; this one is -3.");
  fails(FindingKind::kOutOfBounds, 32, store_box, out_map(), -8, 0);
  // The map says more rows than there are.
  run(store_box, {1, 32}, out_map(kTensorRows + kRows), 0, kTensorRows - 1);
  const Finding finding = only_finding(FindingKind::kOutOfBounds);
  EXPECT_EQ(finding.array, "stored");
  EXPECT_EQ(finding.location, LINE_MARKED("stores a box"));
}

// ---- A block that takes one tile after the other -----------------------------------------------

struct Ring {
  alignas(128) Half tile[kRows * kCols];
  std::uint64_t full, empty;
  int number;
};

// One thread takes the number of a tile, and requests it; two warps add 1 to its elements, and
// store it from where it lies.
__global__ void add_one(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out,
                        int* next, int tiles, bool too_early) {
  auto& s = shared_storage<Ring>();
  const int t = threadIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&s.full, 1);
    ptx::mbarrier_init(&s.empty, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (t >= 64) {
    for (unsigned n = 0; t == 64; ++n) {
      ptx::mbarrier_wait(&s.empty, n % 2 ^ 1);
      s.number = atomicAdd(next, 1);
      if (s.number >= tiles) ptx::mbarrier_arrive(&s.full);
      if (s.number >= tiles) return;
      ptx::mbarrier_arrive_expect_tx(&s.full, kBytes);
      ptx::tensor_copy(s.tile, in, 0, s.number * kRows, 0, 0, &s.full);  // requests
    }
    return;
  }
  for (unsigned n = 0;; ++n) {
    ptx::mbarrier_wait(&s.full, n % 2);
    const int number = s.number;
    if (number >= tiles) break;
    for (int i = t; i < kRows * kCols; i += 64) ++s.tile[i];  // adds
    ptx::fence_proxy_async();
    ptx::named_barrier_sync(1, 64);
    if (t != 0) continue;
    ptx::tensor_store(out, 0, number * kRows, 0, 0, s.tile);  // stores the tile
    ptx::tensor_store_commit();
    if (too_early) ptx::mbarrier_arrive(&s.empty);
    ptx::tensor_store_wait_read<0>();
    if (!too_early) ptx::mbarrier_arrive(&s.empty);
  }
}

TEST_F(TensorStoreTest, ABlockTakesOneTileAfterTheOther) {
  constexpr int kTiles = 7;
  Array<int> next(1);
  under_all_schedules(17, [&] {
    next.set({0});
    run(add_one, {3, 96, shared_layout<Ring>()}, map(), out_map(), next.data(), kTiles, false);
    const std::vector<Half> stored = stored_.values();
    for (int i = 0; i < kTiles * kRows * kCols; ++i) ASSERT_EQ(stored[i], static_cast<Half>(i + 1));
    no_findings();
    next.set({0});
    run(add_one, {1, 96, shared_layout<Ring>()}, map(), out_map(), next.data(), kTiles, true);
    const std::vector<Finding> findings = take_findings();
    EXPECT_TRUE(
        finds("SOURCE OF A STORE OVERWRITTEN", {"stores the tile", "requests"}, findings) ||
        finds("COPY INTO A STAGE THAT IS NOT EMPTY", {"stores the tile", "requests"}, findings));
  });
}

}  // namespace
}  // namespace cuflash::simt
