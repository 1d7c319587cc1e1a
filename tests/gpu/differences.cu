#include "differences.h"

namespace cuflash {
namespace {

__global__ void compare(const unsigned* a, const unsigned* b, std::size_t words, unsigned* count) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words; i += step) {
    if (a[i] != b[i]) atomicAdd(count, 1);
  }
}

}  // namespace

void count_differences(const void* a, const void* b, std::size_t bytes, unsigned* count,
                       cudaStream_t stream) {
  compare<<<512, 256, 0, stream>>>(static_cast<const unsigned*>(a), static_cast<const unsigned*>(b),
                                   bytes / sizeof(unsigned), count);
}

}  // namespace cuflash
