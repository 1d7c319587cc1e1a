// Loops on the SMs: each SM has one block, and the loop accesses nothing outside the SM.
#ifndef CUFLASH_BENCH_CEILINGS_ON_SM_H_
#define CUFLASH_BENCH_CEILINGS_ON_SM_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "ceilings/ceiling.h"
#include "cuflash/error.h"
#include "device/host/launch.h"

namespace cuflash::bench {

constexpr int kLanes = 32;
constexpr int kWarps = 16;  // per block, the default
constexpr int kMaxThreads = kWarps * kLanes;

// The output of a loop. A stored result cannot be optimised away.
struct LoopOutput {
  long long* clocks;  // one per block
  float* kept;        // one per thread
};

// Starts the clock when all threads of the block have arrived.
__device__ __forceinline__ long long start_clock() {
  __syncthreads();
  return clock64();
}

// The cycles since the start, when all threads have ended their loop.
__device__ __forceinline__ long long stop_clock(long long start) {
  __syncthreads();
  return clock64() - start;
}

// Stores the result of the thread's loop and its cycles.
__device__ __forceinline__ void keep(const LoopOutput& out, float result, long long clocks) {
  out.kept[blockIdx.x * blockDim.x + threadIdx.x] = result;
  if (threadIdx.x == 0) out.clocks[blockIdx.x] = clocks;
}

// A number in [-1, 1) without a pattern, because zeros as operands would cost less power.
__device__ __forceinline__ float noise(unsigned i) {
  return static_cast<float>(static_cast<int>((i + 1) * 2654435761u)) * 0x1p-31f;
}

// A launch of `kernel` with one block of `warps` warps per SM. `work` is the work of one warp in
// one round, and the kernel's argument is the number of rounds.
inline Loop loop_on_sm(const Chip& chip, void (*kernel)(LoopOutput, int), int warps, int rounds,
                       std::vector<Work> work) {
  for (Work& part : work) part.amount *= double(rounds) * warps * chip.sms;
  struct Buffers {
    harness::DeviceBuffer clocks, kept;
  };
  const int threads = warps * kLanes;
  const auto buffers = std::make_shared<Buffers>();
  buffers->clocks = harness::DeviceBuffer(chip.sms * sizeof(long long));
  buffers->kept = harness::DeviceBuffer(std::size_t(chip.sms) * threads * sizeof(float));
  const LoopOutput out = {reinterpret_cast<long long*>(buffers->clocks.data()),
                          reinterpret_cast<float*>(buffers->kept.data())};
  const auto queue = [=](const harness::Stream& stream) {
    // A block requests all shared memory, so that no SM runs two blocks while another is idle.
    const LaunchConfig config = {dim3(chip.sms), dim3(threads), chip.shared_bytes, stream.get()};
    if (launch(kernel, config, out, rounds) != FlashAttentionError::SUCCESS) {
      harness::check(cudaGetLastError(), "the launch of a loop");
    }
  };
  const auto clocks = [buffers, sms = chip.sms] {
    std::vector<long long> of_block(sms);
    harness::check(cudaMemcpy(of_block.data(), buffers->clocks.data(), sms * sizeof(long long),
                              cudaMemcpyDeviceToHost),
                   "cudaMemcpy of the clocks");
    return std::accumulate(of_block.begin(), of_block.end(), 0.) / sms;
  };
  return {std::move(work), queue, clocks};
}

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_ON_SM_H_
