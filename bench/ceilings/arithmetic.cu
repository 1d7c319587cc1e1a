// Multiply-adds of f32, and exp2.
#include "ceilings/loops.h"
#include "ceilings/on_sm.h"
#include "device/ptx/exp2.h"

namespace cuflash::bench {
namespace {

// Both loops of multiply-adds have 512 per round, because the few instructions of the loop itself
// use the same scheduler.
constexpr int kSums = 32, kSteps = 16;

template <int kCount>
__device__ __forceinline__ float sum_of(const float (&numbers)[kCount]) {
  float sum = 0.f;
  for (const float x : numbers) sum += x;
  return sum;
}

// Consecutive multiply-adds share two operands and differ only in the sum.
__global__ void __launch_bounds__(kMaxThreads, 1) multiply_add(LoopOutput out, int rounds) {
  const float a = noise(2 * threadIdx.x), b = noise(2 * threadIdx.x + 1);
  float sums[kSums] = {};

  const long long start = start_clock();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (float& sum : sums) sum = fmaf(sum, a, b);
    }
  }
  const long long clocks = stop_clock(start);
  keep(out, sum_of(sums), clocks);
}

// A step adds an outer product of 8 × 4 numbers to the sums, as a register tile does: a
// multiply-add reads its sum and one operand or two.
constexpr int kRows = 8, kCols = kSums / kRows;

__global__ void __launch_bounds__(kMaxThreads, 1) add_outer_product(LoopOutput out, int rounds) {
  const unsigned seed = 16 * threadIdx.x;
  float a[kRows], b[kCols], sums[kSums] = {};
  for (int i = 0; i < kRows; ++i) a[i] = noise(seed + i);
  for (int j = 0; j < kCols; ++j) b[j] = noise(seed + kRows + j);

  const long long start = start_clock();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          sums[kCols * i + j] = fmaf(a[i], b[j], sums[kCols * i + j]);
        }
      }
    }
  }
  const long long clocks = stop_clock(start);
  keep(out, sum_of(sums), clocks);
}

// A step replaces each of 16 numbers x by exp2(-x).
constexpr int kNumbers = 16;

__global__ void __launch_bounds__(kMaxThreads, 1) take_exp2(LoopOutput out, int rounds) {
  float x[kNumbers];
  for (int i = 0; i < kNumbers; ++i) x[i] = noise(kNumbers * threadIdx.x + i);

  const long long start = start_clock();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) x[i] = ptx::exp2(-x[i]);
    }
  }
  const long long clocks = stop_clock(start);
  keep(out, sum_of(x), clocks);
}

}  // namespace

Loop multiply_adds(const Chip& chip, FmaOperands operands) {
  constexpr int kRounds = 2000;
  const bool tile = operands == FmaOperands::kRegisterTile;
  return loop_on_sm(chip, tile ? add_outer_product : multiply_add, kWarps, kRounds,
                    {{Unit::kFlop, 2. * kLanes * kSums * kSteps, tile ? "ffma" : ""}});
}

Loop exp2s(const Chip& chip) {
  constexpr int kRounds = 500;
  return loop_on_sm(chip, take_exp2, kWarps, kRounds,
                    {{Unit::kExp2, double(kLanes) * kNumbers * kSteps}});
}

}  // namespace cuflash::bench
