// The fixture of tests that need much device memory.
#ifndef CUFLASH_TESTS_GPU_LARGE_H_
#define CUFLASH_TESTS_GPU_LARGE_H_

#include "harness/owners.h"
#include "support/api_example.h"

namespace cuflash {

class Large : public Api {
 protected:
  // Skips a test that needs more free device memory than there is. The test itself must call it.
  void need(std::size_t gigabytes) {
    std::size_t free = 0, total = 0;
    harness::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (free >= gigabytes << 30) return;
    GTEST_SKIP() << "This device is too small: the test needs " << gigabytes << " GiB, "
                 << (free >> 30) << " are free";
  }

  // Waits for the calls made so far, which must not have failed.
  static void finish() { harness::check(cudaDeviceSynchronize(), "the kernels"); }
};

// Calls need(), and ends the test if that skips it.
#define CUFLASH_NEED(gigabytes) \
  need(gigabytes);              \
  if (IsSkipped()) return

}  // namespace cuflash

#endif  // CUFLASH_TESTS_GPU_LARGE_H_
