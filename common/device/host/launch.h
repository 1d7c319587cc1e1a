// launch(kernel, config, args...): queues a kernel, with the same syntax on both backends.
#ifndef CUFLASH_DEVICE_HOST_LAUNCH_H_
#define CUFLASH_DEVICE_HOST_LAUNCH_H_

#include <cuda_runtime.h>

#include "cuflash/error.h"
#include "device/shared_memory.h"
#ifdef CUFLASH_WATCHDOG
#include "device/instruments/watchdog.h"
#endif

namespace cuflash {

struct LaunchConfig {
  dim3 grid;
  dim3 block;
  SharedLayout shared = {};
  cudaStream_t stream = nullptr;
  dim3 cluster = {};  // blocks per cluster; more than one needs compute capability 9.0
};

// Queues the kernel. A refused launch (too large, too much shared memory) returns CUDA_ERROR, and
// the runtime keeps its reason for cudaGetLastError().
template <class... Params, class... Args>
FlashAttentionError launch(void (*kernel)(Params...), const LaunchConfig& config, Args&&... args) {
#ifdef CUFLASH_WATCHDOG
  watchdog::arm();
#endif
  // A kernel must opt in to more shared memory than the default.
  if (config.shared.bytes > kDefaultSharedBytes &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(config.shared.bytes)) != cudaSuccess) {
    return FlashAttentionError::CUDA_ERROR;
  }
  const dim3 cluster = config.cluster;
  cudaLaunchAttribute attributes[1] = {};
  unsigned num_attributes = 0;
  if (cluster.x * cluster.y * cluster.z != 1) {  // Devices before 9.0 have no clusters.
    attributes[num_attributes].id = cudaLaunchAttributeClusterDimension;
    attributes[num_attributes++].val.clusterDim = {cluster.x, cluster.y, cluster.z};
  }
  cudaLaunchConfig_t launch = {};
  launch.gridDim = config.grid;
  launch.blockDim = config.block;
  launch.dynamicSmemBytes = config.shared.bytes;
  launch.stream = config.stream;
  launch.attrs = attributes;
  launch.numAttrs = num_attributes;
  return cudaLaunchKernelEx(&launch, kernel, static_cast<Params>(args)...) == cudaSuccess
             ? FlashAttentionError::SUCCESS
             : FlashAttentionError::CUDA_ERROR;
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_HOST_LAUNCH_H_
