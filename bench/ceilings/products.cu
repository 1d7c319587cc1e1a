// Products on the tensor cores by mma.sync, alone and overlapped with exp2.
#include <stdexcept>

#include "ceilings/loops.h"
#include "ceilings/on_sm.h"
#include "device/mma_fragments.h"
#include "device/ptx/exp2.h"
#include "device/ptx/mma.h"

namespace cuflash::bench {
namespace {

constexpr int kProducts = 16;  // independent products per step
constexpr int kSteps = 8;      // per round
constexpr double kFlops = 2. * kMmaM * kMmaN * kMmaK;

// Each step multiplies one left operand by 16 right ones, with kExp2s exp2 spread among the
// products. Every product and every exp2 depends on its result of the previous step.
template <class T, int kExp2s>
__global__ void __launch_bounds__(kMaxThreads, 1) multiply(LoopOutput out, int rounds) {
  const unsigned seed = 64 * threadIdx.x;
  MmaA::Registers rA;
  MmaB::Registers rB[kProducts];
  MmaAccumulator::Registers rD[kProducts] = {};
  float x[kExp2s + 1] = {};
  for (int r = 0; r < 4; ++r) rA[r] = pack<T>(noise(seed + 2 * r), noise(seed + 2 * r + 1));
  for (int i = 0; i < kProducts; ++i) {
    for (int r = 0; r < 2; ++r) {
      rB[i][r] = pack<T>(noise(seed + 8 + 2 * i + r), -noise(seed + 9 + 2 * i + r));
    }
  }

  const long long start = start_clock();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kProducts; ++i) {
        ptx::mma_m16n8k16<T>(rD[i], rA, rB[i]);
        if constexpr (kExp2s > 0) {
          constexpr int kApart = kProducts / kExp2s;
          if (i % kApart == 0) x[i / kApart] = ptx::exp2(-x[i / kApart]);
        }
      }
    }
  }
  const long long clocks = stop_clock(start);

  float sum = 0.f;
  for (const auto& r : rD) sum += r[0] + r[1] + r[2] + r[3];
  for (const float y : x) sum += y;
  keep(out, sum, clocks);
}

template <class T, int kExp2s>
Loop loop(const Chip& chip, int warps) {
  constexpr int kRounds = 1200;  // with 16 warps
  std::vector<Work> work = {{Unit::kFlop, kFlops * kProducts * kSteps}};
  if (kExp2s > 0) work.push_back({Unit::kExp2, double(kLanes) * kExp2s * kSteps, "exp2"});
  if (kExp2s > 0 || warps != kWarps) work[0].whole = "mma_f16";
  return loop_on_sm(chip, multiply<T, kExp2s>, warps, kRounds * kWarps / warps, std::move(work));
}

}  // namespace

Loop products(const Chip& chip, DType dtype, int warps, int exp2s) {
  if (dtype == CUFLASH_BF16 && exp2s == 0) return loop<__nv_bfloat16, 0>(chip, warps);
  if (dtype == CUFLASH_F16 && exp2s == 0) return loop<__half, 0>(chip, warps);
  if (dtype == CUFLASH_F16 && exp2s == 4) return loop<__half, 4>(chip, warps);
  if (dtype == CUFLASH_F16 && exp2s == 8) return loop<__half, 8>(chip, warps);
  if (dtype == CUFLASH_F16 && exp2s == 16) return loop<__half, 16>(chip, warps);
  throw std::logic_error("there is no such loop of products");
}

}  // namespace cuflash::bench
