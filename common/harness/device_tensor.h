// Device memory with guard bytes around it, and tensors in it.
#ifndef CUFLASH_HARNESS_DEVICE_TENSOR_H_
#define CUFLASH_HARNESS_DEVICE_TENSOR_H_

#include <string>
#include <vector>

#include "cuflash/problem.h"
#include "harness/owners.h"
#include "harness/stage_call.h"

namespace cuflash::harness {

// Device memory between two ranges of known bytes.
class GuardedBuffer {
 public:
  GuardedBuffer(std::size_t bytes, std::size_t guard_bytes, std::string name);

  std::byte* data() const { return memory_.data() + guard_bytes_; }
  std::size_t bytes() const { return memory_.bytes() - 2 * guard_bytes_; }
  // Sets every byte so that all elements are NaN, in every dtype.
  void fill_nan() const;
  // A sentence if a guard byte has changed, else empty.
  std::string damage() const;

 private:
  std::string name_;
  std::size_t guard_bytes_;
  DeviceBuffer memory_;
};

// A [batch, heads, seq, head_dim] tensor in device memory.
class DeviceTensor {
 public:
  struct Shape {
    int batch, heads, seq, head_dim;
  };
  DeviceTensor(const Shape& shape, DType dtype, Layout layout, std::size_t guard_bytes,
               std::string name);

  Tensor view() const { return view_; }
  // Writes the elements, and NaN into the gaps between them.
  void upload(const std::vector<float>& values) const;
  // Sets the elements to NaN and the gaps between them to known bytes.
  void poison() const;
  // Reads the elements. If a gap or guard has changed, writes a sentence to `damage`, unless it is
  // null.
  std::vector<float> download(std::string* damage = nullptr) const;

 private:
  // Calls f(byte offset in the image, element offset in a tensor without gaps) for each row of an
  // image.
  template <class F>
  void for_each_row(int image, F&& f) const;
  std::byte* image_data(int image) const;

  Shape shape_;
  DType dtype_;
  std::string name_;
  Tensor view_;
  // An image is the memory of one copy, gaps included: the tensor, or one batch if batches are far
  // apart.
  int image_batches_;
  std::size_t image_bytes_;
  GuardedBuffer buffer_;
};

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_DEVICE_TENSOR_H_
