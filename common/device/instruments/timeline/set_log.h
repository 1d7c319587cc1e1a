// Gives kernels the log of a timeline.
#ifndef CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_SET_LOG_H_
#define CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_SET_LOG_H_

#include <cuda_runtime.h>

#include <vector>

#include "device/instruments/timeline/log.h"

namespace cuflash::timeline {

// The copies of the Log in constant memory. Each file with kernels has its own.
inline std::vector<const void*>& symbols() {
  static std::vector<const void*> all;
  return all;
}
inline bool add_symbol(const void* symbol) {
  symbols().push_back(symbol);
  return true;
}

// Sets the log of all kernels that are queued later.
inline cudaError_t set_log(const Log& log) {
  for (const void* symbol : symbols()) {
    const cudaError_t error = cudaMemcpyToSymbol(symbol, &log, sizeof log);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace cuflash::timeline

#endif  // CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_SET_LOG_H_
