// Warp-wide operations, barriers and atomics: their values, and the faults of their use.
#include <algorithm>
#include <numeric>

#include "support.h"

namespace cuflash::simt {
namespace {

constexpr unsigned kAll = 0xffffffffu;

// ---- Values
// --------------------------------------------------------------------------------------

class Warp : public SimulatorTest {
 protected:
  Array<int> out_{64};
};

enum class Shuffle { kIndex, kUp, kDown, kXor };

// Each lane passes 100 + its number.
template <Shuffle kKind>
__global__ void shuffle(int* out, int argument, int width) {
  const int lane = threadIdx.x;
  const int value = 100 + lane;
  int got = 0;
  if constexpr (kKind == Shuffle::kIndex) got = __shfl_sync(kAll, value, argument, width);
  if constexpr (kKind == Shuffle::kUp) got = __shfl_up_sync(kAll, value, argument, width);
  if constexpr (kKind == Shuffle::kDown) got = __shfl_down_sync(kAll, value, argument, width);
  if constexpr (kKind == Shuffle::kXor) got = __shfl_xor_sync(kAll, value, argument, width);
  out[lane] = got;
}

// The lane that each lane reads, according to the CUDA guide.
int source_lane(Shuffle kind, int lane, int argument, int width) {
  const int segment = lane / width * width;
  int source = 0;
  switch (kind) {
    case Shuffle::kIndex:
      return segment + argument % width;
    case Shuffle::kUp:
      source = lane - argument;
      return source < segment ? lane : source;
    case Shuffle::kDown:
      source = lane + argument;
      return source >= segment + width ? lane : source;
    case Shuffle::kXor:  // may reach into earlier segments, not into later ones
      source = lane ^ argument;
      return source >= segment + width ? lane : source;
  }
  return -1;
}

template <Shuffle kKind>
void check_shuffle(int* out, const Array<int>& array) {
  for (const int width : {32, 16, 8}) {
    for (const int argument : {0, 1, 3, 7, 8, 15, 16, 31}) {
      run(shuffle<kKind>, {1, 32}, out, argument, width);
      const std::vector<int> got = array.values();
      for (int lane = 0; lane < 32; ++lane) {
        EXPECT_EQ(got[lane], 100 + source_lane(kKind, lane, argument, width))
            << "lane " << lane << " argument " << argument << " width " << width;
      }
    }
  }
}

TEST_F(Warp, Shuffles) {
  const Array<int> out(32);
  check_shuffle<Shuffle::kIndex>(out.data(), out);
  check_shuffle<Shuffle::kUp>(out.data(), out);
  check_shuffle<Shuffle::kDown>(out.data(), out);
  check_shuffle<Shuffle::kXor>(out.data(), out);
}

TEST_F(Warp, ShufflesOfOtherTypes) {
  void (*kernel)(double*, float2*) = [](double* d, float2* f) {
    const int lane = threadIdx.x;
    d[lane] = __shfl_xor_sync(kAll, lane + 0.5, 1);
    f[lane] = __shfl_xor_sync(kAll, make_float2(lane, -lane), 2);
  };
  const Array<double> d(32);
  const Array<float2> f(32);
  run(kernel, {1, 32}, d.data(), f.data());
  EXPECT_EQ(d.values()[6], 7.5);
  EXPECT_EQ(f.values()[9].y, -11.f);
}

__global__ void votes(unsigned* out) {
  const int lane = threadIdx.x;
  unsigned* const mine = out + lane * 8;
  mine[0] = __ballot_sync(kAll, lane % 3 == 0);
  mine[1] = __any_sync(kAll, lane == 31);
  mine[2] = __any_sync(kAll, 0);
  mine[3] = __all_sync(kAll, lane < 32);
  mine[4] = __all_sync(kAll, lane != 7);
  mine[5] = __activemask();
  __syncwarp();
  if (lane < 8) {
    mine[6] = __ballot_sync(0xffu, lane >= 4);
    mine[7] = __all_sync(0xffu, lane >= 0);
  }
}

TEST_F(Warp, Votes) {
  const Array<unsigned> out(256, 0u);
  run(votes, {1, 32}, out.data());
  const std::vector<unsigned> got = out.values();
  for (int lane = 0; lane < 32; ++lane) {
    const unsigned* const mine = &got[lane * 8];
    EXPECT_EQ(mine[0], 0x49249249u);
    EXPECT_EQ(mine[1], 1u);
    EXPECT_EQ(mine[2], 0u);
    EXPECT_EQ(mine[3], 1u);
    EXPECT_EQ(mine[4], 0u);
    EXPECT_EQ(mine[5], kAll);
    EXPECT_EQ(mine[6], lane < 8 ? 0xf0u : 0u);
    EXPECT_EQ(mine[7], lane < 8 ? 1u : 0u);
  }
}

TEST_F(Warp, ActiveMaskLeavesOutWhoIsNotThere) {
  void (*kernel)(int*) = [](int* out) {
    if (threadIdx.x == 33) return;
    __syncwarp();
    out[threadIdx.x] = static_cast<int>(__activemask());
    __syncwarp();
  };
  run(kernel, {1, 36}, out_.data());
  EXPECT_EQ(out_.values()[0], -1);
  EXPECT_EQ(out_.values()[32], 0b1101);
}

// Loops of different lengths, with an operation of the remaining lanes in each round.
TEST_F(Warp, DivergentLoop) {
  void (*kernel)(int*) = [](int* out) {
    const int lane = threadIdx.x;
    int sum = 0;
    unsigned mask = kAll;
    for (int round = 0; round <= lane; ++round) {
      sum += __builtin_popcount(__ballot_sync(mask, 1));
      mask &= ~(1u << round);
    }
    out[lane] = sum;
  };
  run(kernel, {1, 32}, out_.data());
  EXPECT_EQ(out_.values()[3], 32 + 31 + 30 + 29);
}

__global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, int* olds) {
  const int t = threadIdx.x;
  olds[t] = atomicAdd(i, 1);
  atomicMax(i + 1, t);
  atomicMin(i + 2, -t);
  atomicAdd(u, 2u);
  atomicMax(u + 1, static_cast<unsigned>(t));
  atomicMin(u + 2, static_cast<unsigned>(t));
  atomicAdd(l, 1ull << 40);
  atomicAdd(f, 0.5f);
  for (int seen = i[8 + 0 * t], next = 0; next != seen;) {  // an addition by compare-and-swap
    next = seen;
    seen = atomicCAS(i + 3, next, next + 3);
  }
  if (t == 5) olds[64] = atomicExch(i + 4, 9);
}

TEST_F(Warp, Atomics) {
  Array<int> i(9, 0), olds(65, 0);
  Array<unsigned> u(3, 50u);
  Array<unsigned long long> l(1, 0ull);
  Array<float> f(1, 0.f);
  set_schedule({Schedule::Order::kRandom, 3});
  i.set({0, 0, 0, 0, 4, 0, 0, 0, -1});
  run(atomics, {1, 64}, i.data(), u.data(), l.data(), f.data(), olds.data());
  const std::vector<int> got = i.values();
  EXPECT_EQ(got[0], 64);
  EXPECT_EQ(got[1], 63);
  EXPECT_EQ(got[2], -63);
  EXPECT_EQ(got[3], 3 * 64);
  EXPECT_EQ(got[4], 9);
  EXPECT_EQ(u.values(), (std::vector<unsigned>{178, 63, 0}));
  EXPECT_EQ(l.values()[0], 64ull << 40);
  EXPECT_EQ(f.values()[0], 32.f);
  std::vector<int> old = olds.values();
  EXPECT_EQ(old[64], 4);
  old.pop_back();
  std::sort(old.begin(), old.end());
  std::vector<int> each(64);
  std::iota(each.begin(), each.end(), 0);
  EXPECT_EQ(old, each);
}

__global__ void more_atomics(int* i, unsigned* u, long long* l, unsigned long long* ul, double* d) {
  const int t = threadIdx.x;
  atomicSub(i, t);
  atomicAnd(i + 1, ~(1 << t));
  atomicOr(i + 2, 1 << t);
  atomicXor(i + 3, t);
  atomicSub(u, 2u);
  atomicInc(u + 1, 4u);  // 0 1 2 3 4 0 1 2 3 4 0 ...
  atomicDec(u + 2, 4u);  // 9 4 3 2 1 0 4 3 2 1 0 ...
  atomicAnd(u + 3, ~(1u << t));
  atomicOr(u + 4, 1u << t);
  atomicXor(u + 5, 1u << t);
  atomicMax(l, static_cast<long long>(t) << 40);
  atomicMin(l + 1, -(static_cast<long long>(t) << 40));
  atomicMax(ul, 1ull << (t + 32));
  atomicMin(ul + 1, 1ull << (32 + t));
  atomicAnd(ul + 2, ~(1ull << (t + 32)));
  atomicOr(ul + 3, 1ull << (t + 32));
  atomicXor(ul + 4, 3ull << (t + 32));
  if (t == 7) u[6] = static_cast<unsigned>(atomicExch(ul + 5, 1ull << 50) >> 40);
  atomicAdd(d, 0.5);
}

TEST_F(Warp, MoreAtomics) {
  Array<int> i(4, 0);
  Array<unsigned> u(7, 0u);
  const Array<long long> l(2, 0ll);
  Array<unsigned long long> ul(6, 0ull);
  const Array<double> d(1, 0.);
  i.set({0, -1, 0, 0});
  u.set({100, 0, 9, ~0u, 0, 0, 0});
  ul.set({0, ~0ull, ~0ull, 0, 0, 5ull << 40});
  set_schedule({Schedule::Order::kRandom, 3});
  run(more_atomics, {1, 30}, i.data(), u.data(), l.data(), ul.data(), d.data());
  EXPECT_EQ(i.values(), (std::vector<int>{-435, -(1 << 30), (1 << 30) - 1, 1}));
  EXPECT_EQ(u.values(),
            (std::vector<unsigned>{40, 0, 0, 3u << 30, (1u << 30) - 1, (1u << 30) - 1, 5}));
  EXPECT_EQ(l.values(), (std::vector<long long>{29ll << 40, -(29ll << 40)}));
  const unsigned long long bits = ((1ull << 30) - 1) << 32;
  EXPECT_EQ(ul.values(), (std::vector<unsigned long long>{1ull << 61, 1ull << 32, ~bits, bits,
                                                          1ull << 32 | 1ull << 62, 1ull << 50}));
  EXPECT_EQ(d.values()[0], 15.);
}

__global__ void reductions(int* out) {
  const int lane = threadIdx.x;
  int* const mine = out + lane * 12;
  mine[0] = __reduce_add_sync(kAll, lane - 20);
  mine[1] = static_cast<int>(__reduce_add_sync(kAll, 1u << lane));
  mine[2] = __reduce_min_sync(kAll, 5 - lane);
  mine[3] = __reduce_max_sync(kAll, lane - 40);
  mine[4] = static_cast<int>(__reduce_min_sync(kAll, static_cast<unsigned>(lane - 3)));
  mine[5] = static_cast<int>(__reduce_max_sync(kAll, static_cast<unsigned>(lane - 3)));
  mine[6] = static_cast<int>(__reduce_and_sync(kAll, lane | 0x40u));
  mine[7] = static_cast<int>(__reduce_or_sync(kAll, 1u << lane));
  mine[8] = static_cast<int>(__reduce_xor_sync(kAll, 1u << lane / 3));
  mine[9] = static_cast<int>(__match_any_sync(kAll, 0.5f * (lane % 5)));
  int all = -1;
  mine[10] = static_cast<int>(__match_all_sync(kAll, 7ll << 40, &all)) * all;
  const bool none = __match_all_sync(kAll, lane / 31, &all) == 0 && all == 0;
  mine[11] = none && lane < 5 ? __reduce_max_sync(0x1fu, lane) : 0;
}

TEST_F(Warp, ReductionsAndMatches) {
  const Array<int> out(32 * 12);
  run(reductions, {1, 32}, out.data());
  const std::vector<int> got = out.values();
  for (int lane = 0; lane < 32; ++lane) {
    unsigned equal = 0;
    for (int other = lane % 5; other < 32; other += 5) equal |= 1u << other;
    const std::vector<int> mine(&got[lane * 12], &got[lane * 12] + 12);
    EXPECT_EQ(mine, (std::vector<int>{496 - 640, -1, -26, -9, 0, -1, 0x40, -1, 0x3ff,
                                      static_cast<int>(equal), -1, lane < 5 ? 4 : 0}))
        << "lane " << lane;
  }
}

__global__ void bits(long long* out, unsigned x, unsigned long long y) {
  const long long values[] = {__popc(x),
                              __popcll(y),
                              __ffs(static_cast<int>(x)),
                              __ffsll(static_cast<long long>(y)),
                              __clz(static_cast<int>(x)),
                              __clzll(static_cast<long long>(y)),
                              static_cast<long long>(__brev(x)),
                              static_cast<long long>(__brevll(y))};
  for (int i = 0; i < 8; ++i) out[i] = values[i];
}

TEST_F(Warp, Bits) {
  const Array<long long> out(8);
  run(bits, {1, 1}, out.data(), 0u, 0ull);
  EXPECT_EQ(out.values(), (std::vector<long long>{0, 0, 0, 0, 32, 64, 0, 0}));
  run(bits, {1, 1}, out.data(), 0x00000b00u, 0x0000000700000000ull);
  EXPECT_EQ(out.values(), (std::vector<long long>{3, 3, 9, 33, 20, 29, 0x00d00000, 0xe0000000}));
  run(bits, {1, 1}, out.data(), ~0u, ~0ull);
  EXPECT_EQ(out.values(), (std::vector<long long>{32, 64, 1, 1, 0, 0, 0xffffffff, -1}));
}

// A thread that waits for another in a polling loop lets the others run.
TEST_F(AccessTest, SpinningThreadsMakeWay) {
  void (*kernel)(int*) = [](int* flag) {
    if (threadIdx.x == 0) {
      while (atomicAdd(flag, 0) == 0) {
      }
    } else {
      atomicExch(flag, 1);
    }
  };
  Array<int> flag(1, 0);
  run(kernel, {1, 2}, flag.data());
}

// ---- Barriers
// ------------------------------------------------------------------------------------

class Barrier : public SimulatorTest {
 protected:
  Array<int> out_{128};
};

__global__ void some_leave(int* out, int leavers) {
  __shared__ int box[128];
  const int t = threadIdx.x;
  box[t] = t;
  if (t < leavers) return;
  __syncthreads();
  out[t] = box[t ^ 1];
}

// As on sm_70 and later, a barrier waits only for the threads that have not exited.
TEST_F(Barrier, DoesNotWaitForThoseThatHaveExited) {
  for (const int leavers : {0, 2, 32, 64, 126}) {
    under_all_schedules([&] {
      run(some_leave, {1, 128}, out_.data(), leavers);
      EXPECT_EQ(out_.values()[127], 126);
    });
  }
}

__global__ void votes_of_the_block(int* out, int leavers) {
  const int t = threadIdx.x;
  if (t < leavers) return;
  int* const mine = out + t * 6;
  mine[0] = __syncthreads_count(t % 3);
  mine[1] = __syncthreads_or(t == 95);
  mine[2] = __syncthreads_or(0);
  mine[3] = __syncthreads_and(t + 1);
  mine[4] = __syncthreads_and(t < 95);
  __shared__ int box[96];
  box[t] = t;
  __syncthreads_or(0);
  mine[5] = box[t ^ 1];
}

TEST_F(Barrier, Votes) {
  const Array<int> out(96 * 6);
  for (const int leavers : {0, 64}) {
    run(votes_of_the_block, {1, 96}, out.data(), leavers);
    const std::vector<int> got = out.values();
    const std::vector<int> last(&got[95 * 6], &got[95 * 6] + 5);
    EXPECT_EQ(last, (std::vector<int>{leavers == 0 ? 64 : 22, 1, 0, 1, 0}));
  }
}

__global__ void two_branches(int* out, int boundary) {
  const int t = threadIdx.x;
  if (t < boundary) {
    out[t] = 1;
    __syncthreads();  // the first branch
  } else {
    out[t] = 2;
    __syncthreads();  // the second branch
  }
}

TEST_F(Barrier, TwoBranches) {
  run(two_branches, {1, 64}, out_.data(), 0);
  run(two_branches, {1, 64}, out_.data(), 64);
  run(two_branches, {1, 64}, out_.data(), 32);
  const Finding finding = only_finding(FindingKind::kDivergentBarrier);
  EXPECT_EQ(finding.kernel, "cuflash::simt::(anonymous namespace)::two_branches");
  EXPECT_EQ(finding.location, LINE_MARKED("the first branch"));
  says(finding,
       "DIVERGENT BARRIER: cuflash::simt::(anonymous namespace)::two_branches, block (0,0,0)");
  says(finding, "thread 0 waits at " + finding.location + "   __syncthreads();");
  says(finding, "thread 32 waits at " + LINE_MARKED("the second branch"));
}

// A barrier of one source line that the compiler has copied.
template <int kRounds>
__device__ __forceinline__ int rounds(int t, int* box) {
  int sum = 0;
#pragma GCC unroll 8
  for (int i = 0; i < kRounds; ++i) {
    __syncthreads();
    box[(t + i) % 64] = i;
    __syncthreads();
    sum += box[t];
  }
  return sum;
}

__global__ void copied_barriers(int* out, bool long_way) {
  __shared__ int box[64];
  const int t = threadIdx.x;
  int sum = rounds<8>(t, box);
  if (long_way) {
    sum += rounds<3>(t, box);
  } else {
    sum += rounds<2>(t, box);
  }
  out[t] = sum;
}

TEST_F(Barrier, CopiesOfOneBarrierAreOne) {
  under_all_schedules([&] {
    run(copied_barriers, {1, 64}, out_.data(), true);
    run(copied_barriers, {1, 64}, out_.data(), false);
  });
}

// A barrier in a loop whose length differs between warps, and one after it.
__global__ void rounds_and_one(int* out, bool differ) {
  const int rounds = differ ? 2 + static_cast<int>(threadIdx.x) / 32 : 3;
  for (int i = 0; i < rounds; ++i) __syncthreads();  // in the loop
  out[threadIdx.x] = rounds;
  __syncthreads();  // behind the loop
}

TEST_F(Barrier, LoopsOfDifferentLengths) {
  run(rounds_and_one, {1, 64}, out_.data(), false);
  run(rounds_and_one, {1, 64}, out_.data(), true);
  const Finding finding = only_finding(FindingKind::kDivergentBarrier);
  says(finding, "thread 0 waits at " + LINE_MARKED("behind the loop"));
  says(finding, "thread 32 waits at " + LINE_MARKED("in the loop"));
}

// ---- Masks
// ---------------------------------------------------------------------------------------

class Mask : public SimulatorTest {
 protected:
  Array<int> out_{64};
};

__global__ void shuffle_in(int* out, int lanes, unsigned mask, int source) {
  const int lane = threadIdx.x;
  if (lane < lanes) {
    out[lane] = __shfl_sync(mask, lane, source);  // shuffles
  }
  __syncthreads();
}

TEST_F(Mask, NamesThoseThatTakePart) {
  run(shuffle_in, {1, 32}, out_.data(), 32, kAll, 31);
  run(shuffle_in, {1, 32}, out_.data(), 16, 0xffffu, 15);
  EXPECT_EQ(out_.values()[0], 15);
}

TEST_F(Mask, NamesALaneThatWaitsElsewhere) {
  const Finding finding = fails(FindingKind::kWarpMask, 32, shuffle_in, out_.data(), 16, kAll, 0);
  EXPECT_EQ(finding.location, LINE_MARKED("shuffles"));
  says(finding, "WARP MASK WITH AN ABSENT LANE: ");
  says(finding, "Warp 0 lane 0 waits at " + finding.location + "   out[lane] = __shfl_sync");
  says(finding, "for lane 16, which waits in __syncthreads() at warp_test.cu:");
}

__global__ void shuffle_after_exit(int* out, unsigned mask) {
  if (threadIdx.x == 9) return;
  out[threadIdx.x] = __shfl_sync(mask, static_cast<int>(threadIdx.x), 8);
}

TEST_F(Mask, NamesALaneThatHasExited) {
  run(shuffle_after_exit, {1, 32}, out_.data(), ~(1u << 9));
  // CUDA goes on without the lane, and so does the simulator.
  run(shuffle_after_exit, {1, 32}, out_.data(), kAll);
  EXPECT_EQ(out_.values()[31], 8);
  says(only_finding(FindingKind::kWarpMask), "for lane 9, which has exited.");
}

TEST_F(Mask, NamesALaneBeyondTheBlock) {
  run(shuffle_in, {1, 8}, out_.data(), 8, 0xffu, 3);
  run(shuffle_in, {1, 8}, out_.data(), 8, kAll, 3);
  says(only_finding(FindingKind::kWarpMask), "for lane 8, which does not exist");
}

TEST_F(Mask, SyncWarpMayNameThoseThatAreGone) {
  void (*kernel)(int*) = [](int* out) {
    if (threadIdx.x % 32 == 3) return;
    __syncwarp();
    out[threadIdx.x] = 1;
  };
  run(kernel, {1, 40}, out_.data());
}

TEST_F(Mask, DoesNotNameTheCaller) {
  const Finding finding =
      fails(FindingKind::kWarpMask, 32, shuffle_in, out_.data(), 32, 0xfffffffeu, 1);
  EXPECT_EQ(finding.location, LINE_MARKED("shuffles"));
  says(finding, "Warp 0 lane 0 calls");
  says(finding, "but the mask does not contain this lane.");
  cudaGetLastError();
}

TEST_F(Mask, SourceOutside) {
  run(shuffle_in, {1, 32}, out_.data(), 16, 0xffffu, 20);
  const Finding finding = only_finding(FindingKind::kWarpMask);
  EXPECT_EQ(finding.count, 16u);
  says(finding, "SHUFFLE FROM A LANE OUTSIDE");
  says(finding, "Warp 0 lane 0 reads lane 20");
}

TEST_F(Mask, LanesInDifferentOperations) {
  void (*kernel)(int*, bool) = [](int* out, bool mixed) {
    const int lane = threadIdx.x;
    if (mixed && lane % 2 == 0) {
      out[lane] = __any_sync(kAll, 1);
    } else if (mixed) {
      out[lane] = __shfl_sync(kAll, lane, 0);
    }
  };
  run(kernel, {1, 32}, out_.data(), false);
  says(fails(FindingKind::kWarpMask, 32, kernel, out_.data(), true),
       "for lane 1, which waits in another warp-wide");
  cudaGetLastError();
}

}  // namespace
}  // namespace cuflash::simt
