// launch(kernel, config, args...): queues a kernel, with the same syntax on both backends.
#ifndef CUFLASH_DEVICE_LAUNCH_H_
#define CUFLASH_DEVICE_LAUNCH_H_

#include <cuda_runtime.h>

#include "cuflash/error.h"
#include "device/shared_memory.h"

namespace cuflash {

struct LaunchConfig {
  dim3 grid;
  dim3 block;
  SharedLayout shared = {};
  cudaStream_t stream = nullptr;
};

// Queues the kernel. A refused launch (too large, too much shared memory) returns CUDA_ERROR, and
// the runtime keeps its reason for cudaGetLastError().
template <class... Params, class... Args>
FlashAttentionError launch(void (*kernel)(Params...), const LaunchConfig& config, Args&&... args) {
  // More shared memory than every device grants must be requested first.
  if (config.shared.bytes > kSharedBytesWithoutAsking &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(config.shared.bytes)) != cudaSuccess) {
    return FlashAttentionError::CUDA_ERROR;
  }
  kernel<<<config.grid, config.block, config.shared.bytes, config.stream>>>(
      static_cast<Params>(args)...);
  return cudaPeekAtLastError() == cudaSuccess ? FlashAttentionError::SUCCESS
                                              : FlashAttentionError::CUDA_ERROR;
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_LAUNCH_H_
