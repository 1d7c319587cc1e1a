// The CPU simulator with less memory than it has; on a GPU nothing changes.
#ifndef CUFLASH_TESTS_SUPPORT_MEMORY_LIMIT_H_
#define CUFLASH_TESTS_SUPPORT_MEMORY_LIMIT_H_

#include <cuda_runtime.h>

#include <cstddef>

#include "harness/owners.h"
#include "simt/simulator.h"

namespace cuflash {

// The most memory that the simulator gives out, for as long as this lives.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes) {
    std::size_t free = 0;
    harness::check(cudaMemGetInfo(&free, &before_), "cudaMemGetInfo");
    simt::set_memory_limit(bytes);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() { simt::set_memory_limit(before_); }

 private:
  std::size_t before_ = 0;
};

}  // namespace cuflash

#endif  // CUFLASH_TESTS_SUPPORT_MEMORY_LIMIT_H_
