// Skips tests if there is no device to run on.
#ifndef CUFLASH_TESTS_SUPPORT_NEED_DEVICE_H_
#define CUFLASH_TESTS_SUPPORT_NEED_DEVICE_H_

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace cuflash {

// Asks the runtime and not the library, so that the test itself makes the library's first call.
inline bool has_device() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count > 0;
  (void)cudaGetLastError();
  return false;
}

// Skips the test if there is no device; with CUFLASH_REQUIRE_GPU=1 in the environment, it fails.
inline void need_device() {
  if (has_device()) return;
  const char* require = std::getenv("CUFLASH_REQUIRE_GPU");
  if (require != nullptr && std::string(require) == "1") {
    FAIL() << "CUFLASH_REQUIRE_GPU is 1, but there is no CUDA device.";
  }
  GTEST_SKIP() << "There is no CUDA device.";
}

}  // namespace cuflash

#endif  // CUFLASH_TESTS_SUPPORT_NEED_DEVICE_H_
