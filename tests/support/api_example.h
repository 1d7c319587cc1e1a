// What the tests of the API's calls share: one problem on the device, with the oracle's answer.
#ifndef CUFLASH_TESTS_SUPPORT_API_EXAMPLE_H_
#define CUFLASH_TESTS_SUPPORT_API_EXAMPLE_H_

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "harness/owners.h"
#include "reference/reference.h"
#include "simt/simulator.h"
#include "support/need_device.h"

namespace cuflash {

// Kernels launched so far; the CPU simulator counts them, a GPU does not.
inline std::uint64_t launches() { return simt::counts().launches; }

// Sets an environment variable for as long as it lives; a null value removes it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, was_set_ = true;
    set(value);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { set(was_set_ ? before_.c_str() : nullptr); }

 private:
  void set(const char* value) { value != nullptr ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

// An array in device memory.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& host) : buffer_(host.size() * sizeof(T)) {
    harness::check(cudaMemcpy(data(), host.data(), buffer_.bytes(), cudaMemcpyHostToDevice),
                   "cudaMemcpy to the device");
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  std::vector<T> host() const {
    std::vector<T> values(buffer_.bytes() / sizeof(T));
    harness::check(cudaMemcpy(values.data(), data(), buffer_.bytes(), cudaMemcpyDeviceToHost),
                   "cudaMemcpy to the host");
    return values;
  }

 private:
  harness::DeviceBuffer buffer_;
};

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(bits);
  return values;
}

// The contents of outputs before a call: a value that no kernel computes.
inline constexpr float kPoison = -12345.f;
inline std::vector<float> poison(std::size_t count) { return std::vector<float>(count, kPoison); }
inline bool poisoned(const Array<float>& array) {
  const std::vector<float> values = array.host();
  return std::all_of(values.begin(), values.end(), [](float x) { return x == kPoison; });
}

// One f32 problem with all its tensors on the device, and the oracle's answer.
struct Example {
  Problem problem{2, 4, 2, 5, 7, 32, CUFLASH_F32, true, default_scale(32)};
  std::size_t rows = 2 * 4 * 5, q_size = rows * 32, kv_size = 2 * 2 * 7 * 32;
  std::vector<float> host_q = random_floats(q_size, 1), host_k = random_floats(kv_size, 2),
                     host_v = random_floats(kv_size, 3), host_do = random_floats(q_size, 4);
  Array<float> q{host_q}, k{host_k}, v{host_v}, d_o{host_do};
  Array<float> o{poison(q_size)}, lse{poison(rows)};
  Array<float> dq{poison(q_size)}, dk{poison(kv_size)}, dv{poison(kv_size)};

  Tensor queries(const Array<float>& a) const { return contiguous(a.data(), 4, 5, 32); }
  Tensor keys(const Array<float>& a) const { return contiguous(a.data(), 2, 7, 32); }
  Forward forward_args() const { return {queries(q), keys(k), keys(v), queries(o), lse.data()}; }
  Backward backward_args() const {
    return {queries(q),  keys(k),  keys(v),  queries(o), queries(d_o),
            queries(dq), keys(dk), keys(dv), lse.data()};
  }
  bool untouched() const {
    return poisoned(o) && poisoned(lse) && poisoned(dq) && poisoned(dk) && poisoned(dv);
  }

  reference::Array q64{host_q.begin(), host_q.end()}, k64{host_k.begin(), host_k.end()},
      v64{host_v.begin(), host_v.end()}, do64{host_do.begin(), host_do.end()};
  reference::Output output() const { return reference::attention_forward(problem, q64, k64, v64); }
  reference::Gradients gradients() const {
    return reference::attention_backward(problem, q64, k64, v64, output(), do64);
  }
};

inline void expect_near(const Array<float>& actual, const reference::Array& expected,
                        double tolerance) {
  const std::vector<float> values = actual.host();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t n = 0; n < values.size(); ++n) {
    ASSERT_NEAR(values[n], expected[n], tolerance) << "element " << n;
  }
}

// Tests that need a device.
class Api : public ::testing::Test {
 protected:
  void SetUp() override { need_device(); }

  void TearDown() override {
    for (const simt::Finding& finding : simt::take_findings()) ADD_FAILURE() << finding.message();
  }

  Environment no_stage_{"CUFLASH_STAGE", nullptr};
};

}  // namespace cuflash

#endif  // CUFLASH_TESTS_SUPPORT_API_EXAMPLE_H_
