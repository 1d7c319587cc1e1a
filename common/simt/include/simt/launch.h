// What launch() passes to the simulator.
#ifndef CUFLASH_SIMT_LAUNCH_H_
#define CUFLASH_SIMT_LAUNCH_H_

#include <cuda_runtime.h>

#include "device/shared_layout.h"

namespace cuflash::simt {

struct Launch {
  dim3 grid, block, cluster;
  SharedLayout shared;        // dynamic shared memory
  std::uintptr_t kernel = 0;  // address of the kernel's code
  void (*invoke)(const void* args) = nullptr;
  const void* args = nullptr;  // the kernel's parameters: host memory, reading it is not traced
  std::size_t args_bytes = 0;
};

// Runs every block to its end. The error is kept for cudaGetLastError() as well.
cudaError_t run_launch(const Launch& launch);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_LAUNCH_H_
