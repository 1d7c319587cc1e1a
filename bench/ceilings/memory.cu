// Memory outside the SMs: a copy, and additions of one f32 per lane.
#include "ceilings/loops.h"
#include "ceilings/memory.h"

namespace cuflash::bench {
namespace {

// Larger than any L2, so that a copy finds no data of the previous copy there.
constexpr std::size_t kCopied = kGiB;
constexpr int kInFlight = 4;  // loads of 16 bytes per thread

__global__ void __launch_bounds__(kMemoryThreads) copy_16_bytes(uint4* to, const uint4* from) {
  const std::size_t first = std::size_t(blockIdx.x) * kInFlight * kMemoryThreads + threadIdx.x;
  uint4 bits[kInFlight];
#pragma unroll
  for (int i = 0; i < kInFlight; ++i) bits[i] = from[first + i * kMemoryThreads];
#pragma unroll
  for (int i = 0; i < kInFlight; ++i) to[first + i * kMemoryThreads] = bits[i];
}

struct AddOne {
  static constexpr int kFloats = 1;
  __device__ __forceinline__ void operator()(float* at) const { atomicAdd(at, 1.f); }
};

}  // namespace

Loop copy(const Chip&) {
  constexpr std::size_t kBlockBytes = sizeof(uint4) * kInFlight * kMemoryThreads;
  static_assert(kCopied % kBlockBytes == 0, "every block copies as much");
  const auto from = std::make_shared<harness::DeviceBuffer>(kCopied);
  const auto to = std::make_shared<harness::DeviceBuffer>(kCopied);
  harness::check(cudaMemset(from->data(), 0x5a, kCopied), "cudaMemset of the source");
  const auto queue = [=](const harness::Stream& stream) {
    const LaunchConfig config = {
        dim3(kCopied / kBlockBytes), dim3(kMemoryThreads), {}, stream.get()};
    if (launch(copy_16_bytes, config, reinterpret_cast<uint4*>(to->data()),
               reinterpret_cast<const uint4*>(from->data())) != FlashAttentionError::SUCCESS) {
      harness::check(cudaGetLastError(), "the launch of a copy");
    }
  };
  return {{{Unit::kByte, 2. * double(kCopied)}}, queue};
}

Loop additions(const Chip& chip, std::size_t target_bytes) {
  return addition_loop<AddOne>(chip, target_bytes);
}

}  // namespace cuflash::bench
