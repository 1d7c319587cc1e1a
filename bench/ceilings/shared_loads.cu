// Loads from shared memory without bank conflicts: ldmatrix, and 16 bytes per lane.
#include <cstdint>

#include "ceilings/loops.h"
#include "ceilings/on_sm.h"
#include "device/ptx/ldmatrix.h"
#include "device/shared_memory.h"

namespace cuflash::bench {
namespace {

constexpr int kLoads = 32;  // independent loads per round
constexpr int kLaneBytes = 16;
constexpr int kLoadBytes = kLanes * kLaneBytes;  // per warp

// In every kind of load, the addresses of neighbouring lanes are 16 bytes apart.
template <SharedLoad kLoad>
__device__ __forceinline__ void load(std::uint32_t (&r)[4], int at) {
  if constexpr (kLoad == SharedLoad::k16Bytes) {
    const uint4 bits = *reinterpret_cast<const uint4*>(shared_memory + at);
    r[0] = bits.x, r[1] = bits.y, r[2] = bits.z, r[3] = bits.w;
  } else if constexpr (kLoad == SharedLoad::kLdmatrix) {
    ptx::ldmatrix_x4(r, shared_memory + at);
  } else {
    ptx::ldmatrix_x4_trans(r, shared_memory + at);
  }
}

// Odd and even rounds load from different places, so that no loaded value can be reused. All values
// go into one number, so that no load can be left out. That takes two instructions per load, and a
// load keeps the SM's shared memory busy for four cycles.
template <SharedLoad kLoad>
__global__ void __launch_bounds__(kMaxThreads, 1) load_shared(LoopOutput out, int rounds) {
  constexpr int kRoundBytes = kLoads * kLoadBytes;
  for (int at = 4 * threadIdx.x; at < 2 * kRoundBytes; at += 4 * blockDim.x) {
    *reinterpret_cast<float*>(shared_memory + at) = noise(at);
  }
  std::uint32_t mixed = 0;

  const long long start = start_clock();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    const int from = round % 2 * kRoundBytes + threadIdx.x % kLanes * kLaneBytes;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      std::uint32_t r[4];
      load<kLoad>(r, from + i * kLoadBytes);
      mixed ^= r[0] ^ r[1] ^ r[2] ^ r[3];
    }
  }
  const long long clocks = stop_clock(start);
  keep(out, __uint_as_float(mixed), clocks);
}

template <SharedLoad kLoad>
Loop loop(const Chip& chip) {
  constexpr int kRounds = 2000;
  return loop_on_sm(chip, load_shared<kLoad>, kWarps, kRounds,
                    {{Unit::kByte, double(kLoadBytes) * kLoads}});
}

}  // namespace

Loop shared_loads(const Chip& chip, SharedLoad load) {
  switch (load) {
    case SharedLoad::kLdmatrix:
      return loop<SharedLoad::kLdmatrix>(chip);
    case SharedLoad::kLdmatrixTrans:
      return loop<SharedLoad::kLdmatrixTrans>(chip);
    default:
      return loop<SharedLoad::k16Bytes>(chip);
  }
}

}  // namespace cuflash::bench
