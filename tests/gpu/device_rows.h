// Large tensors in device memory: rows that repeat, made without a host array of the same size.
#ifndef CUFLASH_TESTS_GPU_DEVICE_ROWS_H_
#define CUFLASH_TESTS_GPU_DEVICE_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuflash/problem.h"
#include "harness/convert.h"
#include "harness/owners.h"

namespace cuflash {

// Rows of `width` elements, without gaps: one head's Q or K, or, with width 1, its LSE.
class DeviceRows {
 public:
  // Holds NaN.
  DeviceRows(DType dtype, int rows, int width)
      : dtype_(dtype),
        rows_(rows),
        width_(width),
        buffer_(std::size_t(rows) * width * element_bytes(dtype)) {
    fill(0xff);
  }
  // Repeats `period`; the last repetition may be partial.
  DeviceRows(DType dtype, int rows, int width, const std::vector<float>& period)
      : DeviceRows(dtype, rows, width) {
    write(0, period);
    const std::size_t bytes = buffer_.bytes();
    std::size_t filled = period.size() * element_bytes(dtype);
    while (filled < bytes) {  // Doubles each time.
      const std::size_t more = std::min(filled, bytes - filled);
      copy(buffer_.data() + filled, buffer_.data(), more, cudaMemcpyDeviceToDevice);
      filled += more;
    }
  }

  // Sets every byte; 0xff makes every element a NaN.
  void fill(int byte) const {
    harness::check(cudaMemset(buffer_.data(), byte, buffer_.bytes()), "cudaMemset");
  }
  // Writes rows from row `first` on.
  void write(int first, const std::vector<float>& values) const {
    std::vector<std::byte> bytes(values.size() * element_bytes(dtype_));
    harness::encode(dtype_, values.data(), values.size(), bytes.data());
    copy(at(first), bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  }
  // Reads `count` rows from row `first` on.
  std::vector<float> read(int first, int count) const {
    std::vector<float> values(std::size_t(count) * width_);
    std::vector<std::byte> bytes(values.size() * element_bytes(dtype_));
    copy(bytes.data(), at(first), bytes.size(), cudaMemcpyDeviceToHost);
    harness::decode(dtype_, bytes.data(), values.size(), values.data());
    return values;
  }

  // As a tensor of one batch and one head.
  Tensor tensor() const { return contiguous(buffer_.data(), 1, rows_, width_); }
  float* floats() const { return reinterpret_cast<float*>(buffer_.data()); }

 private:
  std::byte* at(int row) const {
    return buffer_.data() + std::size_t(row) * width_ * element_bytes(dtype_);
  }
  static void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    harness::check(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy");
  }

  DType dtype_;
  int rows_, width_;
  harness::DeviceBuffer buffer_;
};

}  // namespace cuflash

#endif  // CUFLASH_TESTS_GPU_DEVICE_ROWS_H_
