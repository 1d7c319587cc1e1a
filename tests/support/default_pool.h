// The memory pool of a GPU from which the library takes workspaces.
#ifndef CUFLASH_TESTS_SUPPORT_DEFAULT_POOL_H_
#define CUFLASH_TESTS_SUPPORT_DEFAULT_POOL_H_

#include <cstdint>

#include "harness/owners.h"
#include "simt/simulator.h"

namespace cuflash {

#ifdef CUFLASH_SIMT

// The CPU simulator has no pools: a workspace is freed at once.
struct DefaultPool {
  void give_back() const {}
  void reset_high() const {}
  std::size_t used() const { return 0; }
  std::size_t used_high() const { return 0; }
  std::size_t taken_elsewhere() const { return simt::memory_in_use(); }
};

#else

class DefaultPool {
 public:
  DefaultPool() {
    int device = 0;
    harness::check(cudaGetDevice(&device), "cudaGetDevice");
    harness::check(cudaDeviceGetDefaultMemPool(&pool_, device), "cudaDeviceGetDefaultMemPool");
  }
  // Gives unused memory back to the device.
  void give_back() const { harness::check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo"); }
  // Restarts the maximum that used_high() returns.
  void reset_high() const {
    std::uint64_t zero = 0;
    harness::check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &zero),
                   "cudaMemPoolSetAttribute");
  }
  std::size_t used() const { return attribute(cudaMemPoolAttrUsedMemCurrent); }
  std::size_t used_high() const { return attribute(cudaMemPoolAttrUsedMemHigh); }
  // Bytes of device memory that are in use outside the pool.
  std::size_t taken_elsewhere() const {
    std::size_t free = 0, total = 0;
    harness::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return total - free - attribute(cudaMemPoolAttrReservedMemCurrent);
  }

 private:
  std::size_t attribute(cudaMemPoolAttr name) const {
    std::uint64_t value = 0;
    harness::check(cudaMemPoolGetAttribute(pool_, name, &value), "cudaMemPoolGetAttribute");
    return value;
  }
  cudaMemPool_t pool_ = nullptr;
};

#endif

}  // namespace cuflash

#endif  // CUFLASH_TESTS_SUPPORT_DEFAULT_POOL_H_
