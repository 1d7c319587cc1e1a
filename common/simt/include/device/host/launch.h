// launch(kernel, config, args...): the CPU simulator's version of common/device/host/launch.h.
#ifndef CUFLASH_DEVICE_LAUNCH_H_
#define CUFLASH_DEVICE_LAUNCH_H_

#include <cuda_runtime.h>

#include <tuple>

#include "cuflash/error.h"
#include "device/shared_memory.h"
#include "simt/launch.h"

namespace cuflash {

struct LaunchConfig {
  dim3 grid;
  dim3 block;
  SharedLayout shared = {};
  cudaStream_t stream = nullptr;
  dim3 cluster = {};  // blocks in a cluster: 1 here
};

// Runs the kernel. A refused or failed launch returns CUDA_ERROR.
template <class... Params, class... Args>
FlashAttentionError launch(void (*kernel)(Params...), const LaunchConfig& config, Args&&... args) {
  struct KernelCall {
    void (*kernel)(Params...);
    std::tuple<Params...> params;
  } call{kernel, {static_cast<Params>(args)...}};
  simt::Launch launch;
  launch.grid = config.grid;
  launch.block = config.block;
  launch.cluster = config.cluster;
  launch.shared = config.shared;
  launch.kernel = reinterpret_cast<std::uintptr_t>(kernel);
  launch.args = &call;
  launch.args_bytes = sizeof call;
  launch.invoke = [](const void* args) {
    const KernelCall& call = *static_cast<const KernelCall*>(args);
    std::apply(call.kernel, call.params);
  };
  return simt::run_launch(launch) == cudaSuccess ? FlashAttentionError::SUCCESS
                                                 : FlashAttentionError::CUDA_ERROR;
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_LAUNCH_H_
