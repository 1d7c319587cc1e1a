// What tests of device code share: arrays in device memory, and runs of a kernel on either backend.
#ifndef CUFLASH_TESTS_DEVICE_SUPPORT_H_
#define CUFLASH_TESTS_DEVICE_SUPPORT_H_

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "device/host/launch.h"
#include "harness/owners.h"
#include "simt/simulator.h"
#include "support/need_device.h"

namespace cuflash {

// Needs a device of compute capability 8.0 or more. On the CPU simulator a test fails if it has
// findings.
class DeviceTest : public ::testing::Test {
 protected:
  explicit DeviceTest(int needed_major = 8) : needed_major_(needed_major) {}
  void SetUp() override {
    need_device();
    if (IsSkipped() || HasFatalFailure()) return;
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    if (major < needed_major_) {
      GTEST_SKIP() << "These instructions need compute capability " << needed_major_ << ".0.";
    }
    simt::reset_counts();
  }
  void TearDown() override {
    for (const simt::Finding& finding : simt::take_findings()) ADD_FAILURE() << finding.message();
  }

 private:
  int needed_major_;
};

// An array in device memory.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& values)
      : count_(values.size()), buffer_(values.size() * sizeof(T)) {
    harness::check(
        cudaMemcpy(buffer_.data(), values.data(), buffer_.bytes(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  std::vector<T> values() const {
    std::vector<T> host(count_);
    harness::check(cudaMemcpy(host.data(), data(), buffer_.bytes(), cudaMemcpyDeviceToHost),
                   "cudaMemcpy");
    return host;
  }

 private:
  std::size_t count_;
  harness::DeviceBuffer buffer_;
};

// Runs the kernel to its end.
template <class... Params, class... Args>
void run(void (*kernel)(Params...), const LaunchConfig& config, Args&&... args) {
  ASSERT_EQ(launch(kernel, config, std::forward<Args>(args)...), FlashAttentionError::SUCCESS);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// Integers from -limit to limit, so small that products and sums are exact.
inline std::vector<int> small_integers(int count, int limit, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> values(count);
  for (int& value : values) value = static_cast<int>(random() % (2 * limit + 1)) - limit;
  return values;
}

template <class T>
std::vector<T> converted(const std::vector<int>& values) {
  std::vector<T> converted;
  for (const int value : values) converted.push_back(T(static_cast<float>(value)));
  return converted;
}

}  // namespace cuflash

#endif  // CUFLASH_TESTS_DEVICE_SUPPORT_H_
