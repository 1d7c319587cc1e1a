// Counts: every number here is worked out by hand in the comment beside it.
//
// A request is one instruction of one warp. Global memory moves in sectors of 32 bytes. Shared
// memory has 32 banks of 4 bytes; a wavefront serves one word of each bank.
#include <cuda_fp16.h>

#include "support.h"

namespace cuflash::simt {
namespace {

// ---- Global memory -----------------------------------------------------------------------------

class GlobalCount : public AccessTest {
 protected:
  Array<float> in_{4096, 1.f}, out_{64};
};

template <class T>
__device__ __forceinline__ float first_of(T value) {
  float f;
  std::memcpy(&f, &value, sizeof f < sizeof value ? sizeof f : sizeof value);
  return f;
}

// Lane l of each warp reads element offset + stride · l.
template <class T>
__global__ void strided(const float* in, float* out, int offset, int stride) {
  const int t = threadIdx.x;
  const T value = reinterpret_cast<const T*>(in)[offset + stride * t];
  if (first_of(value) == -1.f) out[t] = 0.f;
}

template <class T>
Counts count_strided(const Array<float>& in, const Array<float>& out, int offset, int stride) {
  reset_counts();
  run(strided<T>, {1, 32}, in.data(), out.data(), offset, stride);
  return counts();
}

TEST_F(GlobalCount, Coalesced) {
  const Counts c = count_strided<float>(in_, out_, 0, 1);
  EXPECT_EQ(c.launches, 1u);
  EXPECT_EQ(c.global_read_requests, 1u);
  EXPECT_EQ(c.global_read_bytes, 128u);  // 32 lanes · 4 bytes
  EXPECT_EQ(c.global_read_sectors, 4u);  // 128 / 32
  EXPECT_EQ(c.global_write_requests, 0u);
  EXPECT_EQ(c.shared_requests, 0u);
}

TEST_F(GlobalCount, OtherPatterns) {
  const auto sectors = [&](int offset, int stride) {
    return count_strided<float>(in_, out_, offset, stride).global_read_sectors;
  };
  EXPECT_EQ(sectors(1, 1), 5u);    // bytes 4 to 131: sectors 0 to 4
  EXPECT_EQ(sectors(0, 2), 8u);    // 256 bytes, every other word
  EXPECT_EQ(sectors(0, 8), 32u);   // a sector each
  EXPECT_EQ(sectors(0, 33), 32u);  // a sector each
  EXPECT_EQ(sectors(5, 0), 1u);    // broadcast
  EXPECT_EQ(sectors(31, -1), 4u);  // coalesced, the other way round
}

TEST_F(GlobalCount, OtherSizes) {
  const auto check = [&](const Counts& c, std::uint64_t bytes) {
    EXPECT_EQ(c.global_read_requests, 1u);
    EXPECT_EQ(c.global_read_bytes, bytes);
    EXPECT_EQ(c.global_read_sectors, bytes / 32);
  };
  check(count_strided<char>(in_, out_, 0, 1), 32);
  check(count_strided<__half>(in_, out_, 0, 1), 64);
  check(count_strided<__half2>(in_, out_, 0, 1), 128);
  check(count_strided<float2>(in_, out_, 0, 1), 256);
  check(count_strided<float4>(in_, out_, 0, 1), 512);
  check(count_strided<int4>(in_, out_, 0, 1), 512);
  check(count_strided<uint4>(in_, out_, 0, 1), 512);
}

// Floats read and written as vectors.
__global__ void by_fours(const float* in, float* out) {
  alignas(16) __shared__ float tile[128];
  const int i = threadIdx.x * 4;
  reinterpret_cast<float4&>(tile[i]) = __ldg(reinterpret_cast<const float4*>(in + i));
  const float4 v = reinterpret_cast<const float4&>(tile[i]);
  reinterpret_cast<float4*>(out + i)[0] = make_float4(v.w, v.x, v.y, v.z);
}

TEST_F(GlobalCount, VectorsAreOneAccess) {
  const Array<float> out(128);
  run(by_fours, {1, 32}, in_.data(), out.data());
  const Counts c = counts();
  EXPECT_EQ(c.global_read_requests, 1u);
  EXPECT_EQ(c.global_read_bytes, 512u);
  EXPECT_EQ(c.global_write_requests, 1u);
  EXPECT_EQ(c.shared_requests, 2u);
  EXPECT_EQ(c.shared_wavefronts, 8u);  // quarter warps: 4 to write, 4 to read
}

TEST_F(GlobalCount, RaggedLastWarp) {
  run(strided<float>, {1, 40}, in_.data(), out_.data(), 0, 1);
  const Counts c = counts();
  EXPECT_EQ(c.global_read_requests, 2u);
  EXPECT_EQ(c.global_read_bytes, 160u);
  EXPECT_EQ(c.global_read_sectors, 5u);  // 4 of the first warp, 8 lanes · 4 bytes of the second
}

TEST_F(GlobalCount, Atomics) {
  void (*kernel)(float*) = [](float* p) { atomicAdd(p + threadIdx.x, 1.f); };
  run(kernel, {1, 32}, in_.data());
  const Counts c = counts();  // a read and a write of the same 128 bytes
  EXPECT_EQ(c.global_read_requests, 1u);
  EXPECT_EQ(c.global_write_requests, 1u);
  EXPECT_EQ(c.global_read_bytes, 128u);
  EXPECT_EQ(c.global_write_sectors, 4u);
}

TEST_F(GlobalCount, TotalsOverLaunches) {
  for (int i = 0; i < 3; ++i) run(strided<float>, {1, 32}, in_.data(), out_.data(), 0, 1);
  EXPECT_EQ(counts().launches, 3u);
  EXPECT_EQ(counts().global_read_bytes, 3 * 128u);
  reset_counts();
  EXPECT_EQ(counts().launches, 0u);
  EXPECT_EQ(counts().global_read_bytes, 0u);
}

// ---- Barriers ----------------------------------------------------------------------------------

using BarrierCount = SimulatorTest;

__global__ void barriers(int rounds) {
  for (int n = 0; n < rounds; ++n) __syncthreads();
  if (threadIdx.x < 32) __syncwarp();
  __shfl_sync(~0u, 1, 0);  // orders the lanes, too, but is no barrier
}

TEST_F(BarrierCount, BlocksAndWarps) {
  under_all_schedules([&] {
    reset_counts();
    run(barriers, {3, 64}, 5);
    EXPECT_EQ(counts().barriers, 15u);  // 3 blocks, 5 rounds
    EXPECT_EQ(counts().warp_syncs, 3u);
  });
  reset_counts();
  EXPECT_EQ(counts().barriers, 0u);
  EXPECT_EQ(counts().warp_syncs, 0u);
}

// An operation counts the same if some lanes do not take part, or if the last warp lacks some.
TEST_F(BarrierCount, OfSomeLanes) {
  void (*kernel)() = [] {
    if (threadIdx.x % 32 < 8) __syncwarp(0xffu);
  };
  run(kernel, {1, 40});
  EXPECT_EQ(counts().warp_syncs, 2u);
}

// ---- Lanes that diverge ------------------------------------------------------------------------

// Lane l makes `base` + l rounds.
__global__ void unequal_rounds(const float* in, float* out, int base) {
  const int lane = threadIdx.x;
  float sum = 0.f;
  for (int i = 0; i < base + lane; ++i) sum += in[i * 32 % 4096 + lane];
  out[lane] = sum;
}

TEST_F(GlobalCount, LoopsOfDifferentLengths) {
  run(unequal_rounds, {1, 32}, in_.data(), out_.data(), 1);
  Counts c = counts();
  // Round k is one request of the lanes that get so far: the longest loop has 32 rounds, and the
  // lanes make 1 + 2 + … + 32 = 528 of them. The write comes after all.
  EXPECT_EQ(c.global_read_requests, 32u);
  EXPECT_EQ(c.global_read_bytes, 528u * 4);
  EXPECT_EQ(c.global_write_requests, 1u);

  // The same when the loops are longer than what a lane's trace holds at a time.
  reset_counts();
  run(unequal_rounds, {1, 32}, in_.data(), out_.data(), 1001);
  c = counts();
  EXPECT_EQ(c.global_read_requests, 1032u);
  EXPECT_EQ(c.global_read_bytes, (1000u * 32 + 528) * 4);
  EXPECT_EQ(c.global_write_requests, 1u);
}

__global__ void two_branches(const float* in, float* out) {
  const int lane = threadIdx.x;
  float value;
  if (lane % 2 == 0) {
    value = in[lane];
  } else {
    value = in[32 + lane];
  }
  out[lane] = value;
}

TEST_F(GlobalCount, BranchesAreSeparateRequests) {
  run(two_branches, {1, 32}, in_.data(), out_.data());
  const Counts c = counts();
  EXPECT_EQ(c.global_read_requests, 2u);  // 16 lanes each
  EXPECT_EQ(c.global_read_bytes, 128u);
  EXPECT_EQ(c.global_read_sectors, 8u);    // every other word of 4 sectors, twice
  EXPECT_EQ(c.global_write_requests, 1u);  // together again
}

// Half of the lanes make 5 rounds, the others 7, of a loop that the compiler unrolls: copies of the
// access are one access, so this is 7 requests, 5 of them full.
__global__ void unrolled(const float* in, float* out) {
  const int lane = threadIdx.x;
  const int rounds = lane < 16 ? 5 : 7;
  float sum = 0.f;
#pragma GCC unroll 4
  for (int i = 0; i < rounds; ++i) sum += in[i * 32 + lane];
  out[lane] = sum;
}

TEST_F(GlobalCount, UnrolledLoop) {
  run(unrolled, {1, 32}, in_.data(), out_.data());
  EXPECT_EQ(counts().global_read_requests, 7u);
  EXPECT_EQ(counts().global_read_bytes, 5 * 128u + 2 * 64u);
  EXPECT_EQ(counts().global_read_sectors, 5 * 4u + 2 * 2u);
}

// A lane that skips a round, or has an access of its own in it, meets the others in the next one.
__global__ void skipped_rounds(const float* in, float* out, float* own) {
  const int lane = threadIdx.x;
  for (int r = 0; r < 4; ++r) {
    float value = 0.f;
    if (lane <= 8 * r) value = in[32 * r + lane];
    out[32 * r + lane] = value;
    if (lane == 0) own[r] = value;
  }
}

TEST_F(GlobalCount, SkippedRounds) {
  Array<float> out(128), own(4);
  run(skipped_rounds, {1, 32}, in_.data(), out.data(), own.data());
  const Counts c = counts();
  // 1, 9, 17 and 25 neighbouring lanes read: 1, 2, 3 and 4 sectors.
  EXPECT_EQ(c.global_read_requests, 4u);
  EXPECT_EQ(c.global_read_sectors, 10u);
  EXPECT_EQ(c.global_read_bytes, 52u * 4);
  // Four full rows, and four single elements.
  EXPECT_EQ(c.global_write_requests, 8u);
  EXPECT_EQ(c.global_write_sectors, 4u * 4 + 4);
}

// If a group of lanes meets, the requests of the other lanes stay whole.
__global__ void partial_meeting(const float* in, float* out) {
  const int lane = threadIdx.x;
  float sum = in[lane];
  if (lane < 16) __syncwarp(0xffffu);
  sum += in[lane + 32];
  out[lane] = sum;
}

TEST_F(GlobalCount, PartialMasksDoNotSplitRequests) {
  under_all_schedules([&] {
    reset_counts();
    run(partial_meeting, {1, 32}, in_.data(), out_.data());
    EXPECT_EQ(counts().global_read_requests, 2u);
    EXPECT_EQ(counts().global_read_sectors, 8u);
  });
}

// ---- Shared memory -----------------------------------------------------------------------------

class SharedCount : public AccessTest {
 protected:
  Array<float> in_{1024, 1.f}, out_{1024};
};

// Lane l reads element stride · l of a tile of 16 KB.
template <class T>
__global__ void read_shared(float* out, int stride) {
  __shared__ __align__(128) float tile[4096];
  const int lane = threadIdx.x;
  if (lane == 0) {
    for (int i = 0; i < 4096; ++i) tile[i] = 0.f;
  }
  __syncthreads();
  const T value = reinterpret_cast<const T*>(tile)[stride * lane];
  if (first_of(value) == -1.f) out[lane] = 0.f;
}

template <class T>
void expect_wavefronts(const Array<float>& out, int stride, unsigned taken, unsigned ideal) {
  reset_counts();
  run(read_shared<T>, {1, 32}, out.data(), stride);
  const Counts c = counts();
  EXPECT_EQ(c.shared_requests, 4096u + 1u);  // 4,096 writes of lane 0 alone, a wavefront each
  EXPECT_EQ(c.shared_read_bytes, 32 * sizeof(T));
  EXPECT_EQ(c.shared_wavefronts, 4096u + taken) << "size " << sizeof(T) << " stride " << stride;
  EXPECT_EQ(c.bank_conflicts, taken - ideal) << "size " << sizeof(T) << " stride " << stride;
}

TEST_F(SharedCount, Words) {
  expect_wavefronts<float>(out_, 1, 1, 1);    // a word of each bank
  expect_wavefronts<float>(out_, 0, 1, 1);    // one word for all
  expect_wavefronts<float>(out_, 2, 2, 1);    // two words in each even bank
  expect_wavefronts<float>(out_, 33, 1, 1);   // the next bank each time
  expect_wavefronts<float>(out_, 32, 32, 1);  // all in bank 0
  expect_wavefronts<float>(out_, 8, 8, 1);    // 32 words in 4 banks
  expect_wavefronts<float>(out_, 96, 32, 1);  // 96 = 3 · 32: all in bank 0
}

TEST_F(SharedCount, Halves) {
  expect_wavefronts<__half>(out_, 1, 1, 1);    // 16 words, two lanes each
  expect_wavefronts<__half>(out_, 2, 1, 1);    // 32 words
  expect_wavefronts<__half>(out_, 64, 32, 1);  // 32 words of bank 0
  expect_wavefronts<__half2>(out_, 1, 1, 1);
  expect_wavefronts<__half2>(out_, 32, 32, 1);
  expect_wavefronts<char>(out_, 1, 1, 1);
}

TEST_F(SharedCount, VectorsGoByHalfAndQuarterWarps) {
  expect_wavefronts<float2>(out_, 1, 2, 2);    // 16 lanes · 8 bytes = all banks, twice
  expect_wavefronts<float2>(out_, 16, 32, 2);  // 128 bytes apart: 16 lanes in 2 banks, twice
  expect_wavefronts<float4>(out_, 1, 4, 4);    // 8 lanes · 16 bytes = all banks, four times
  expect_wavefronts<float4>(out_, 8, 32, 4);   // 128 bytes apart: 8 lanes in 4 banks, four times
  expect_wavefronts<float4>(out_, 9, 4, 4);    // 144 bytes apart: the next 4 banks each time
}

}  // namespace
}  // namespace cuflash::simt
