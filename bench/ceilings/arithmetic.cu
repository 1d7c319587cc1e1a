// Multiply-adds of f32, and exp2.
#include "ceilings/loops.h"
#include "ceilings/on_sm.h"
#include "device/ptx/exp2.h"

namespace cuflash::bench {
namespace {

// A step adds an outer product of 8 × 4 numbers to as many sums, as a register tile does. The
// round has 512 multiply-adds for the few instructions that make it a loop: both go through the
// same scheduler.
constexpr int kRows = 8, kCols = 4, kSteps = 16;

__global__ void __launch_bounds__(kMaxThreads, 1) multiply_add(LoopOutput out, int rounds) {
  const unsigned seed = 16 * threadIdx.x;
  float a[kRows], b[kCols], sums[kRows][kCols] = {};
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
        for (int j = 0; j < kCols; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
      }
    }
  }
  const long long clocks = stop_clock(start);

  float sum = 0.f;
  for (const auto& row : sums) {
    for (const float x : row) sum += x;
  }
  out.kept[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (threadIdx.x == 0) out.clocks[blockIdx.x] = clocks;
}

// A step is one exp2 of each of 16 numbers, of what the step before left.
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

  float sum = 0.f;
  for (const float y : x) sum += y;
  out.kept[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (threadIdx.x == 0) out.clocks[blockIdx.x] = clocks;
}

}  // namespace

Loop multiply_adds(const Chip& chip) {
  constexpr int kRounds = 2000;
  return loop_on_sm(chip, multiply_add, kWarps, kRounds,
                    {{Unit::kFlop, 2. * kLanes * kRows * kCols * kSteps}});
}

Loop exp2s(const Chip& chip) {
  constexpr int kRounds = 500;
  return loop_on_sm(chip, take_exp2, kWarps, kRounds,
                    {{Unit::kExp2, double(kLanes) * kNumbers * kSteps}});
}

}  // namespace cuflash::bench
