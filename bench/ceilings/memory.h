// Launches loops that wait for memory outside the SMs.
#ifndef CUFLASH_BENCH_CEILINGS_MEMORY_H_
#define CUFLASH_BENCH_CEILINGS_MEMORY_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "ceilings/ceiling.h"
#include "cuflash/error.h"
#include "device/host/launch.h"

namespace cuflash::bench {

constexpr int kMemoryThreads = 512;  // per block
constexpr int kMemoryBlocks = 4;     // per SM
constexpr std::size_t kGiB = std::size_t{1} << 30;

// Adds 1 to every float of the target, `passes` times. Add{}(address) adds to the Add::kFloats
// floats from the address on, in one instruction. A warp's addresses are contiguous.
template <class Add>
__global__ void __launch_bounds__(kMemoryThreads)
    add_ones(float* target, std::size_t count, int passes) {
  const std::size_t stride = std::size_t(gridDim.x) * blockDim.x * Add::kFloats;
  const std::size_t first = (std::size_t(blockIdx.x) * blockDim.x + threadIdx.x) * Add::kFloats;
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll 8
    for (std::size_t i = first; i < count; i += stride) Add{}(target + i);
  }
}

// A launch that adds 4 GiB of floats to a target of this size.
template <class Add>
Loop addition_loop(const Chip& chip, std::size_t target_bytes) {
  const auto target = std::make_shared<harness::DeviceBuffer>(target_bytes);
  harness::check(cudaMemset(target->data(), 0, target_bytes), "cudaMemset of the target");
  const int passes = static_cast<int>(4 * kGiB / target_bytes);
  const auto queue = [=, sms = chip.sms](const harness::Stream& stream) {
    const LaunchConfig config = {dim3(kMemoryBlocks * sms), dim3(kMemoryThreads), {}, stream.get()};
    if (launch(add_ones<Add>, config, reinterpret_cast<float*>(target->data()),
               target_bytes / sizeof(float), passes) != FlashAttentionError::SUCCESS) {
      harness::check(cudaGetLastError(), "the launch of additions");
    }
  };
  return {{{Unit::kByte, double(passes) * double(target_bytes)}}, queue};
}

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_MEMORY_H_
