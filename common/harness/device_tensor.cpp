#include "harness/device_tensor.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "harness/convert.h"

namespace cuflash::harness {
namespace {

constexpr std::byte kGuard{0xa5};
constexpr int kNaN = 0xff;      // Bytes of ones are a NaN in f32, f16 and bf16.
constexpr int kTileRows = 128;  // of the largest tile

bool untouched(const std::vector<std::byte>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kGuard; });
}

void to_device(std::byte* to, const std::vector<std::byte>& from) {
  if (from.empty()) return;
  check(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice),
        "cudaMemcpy to the device");
}

std::vector<std::byte> from_device(const std::byte* from, std::size_t bytes) {
  std::vector<std::byte> to(bytes);
  if (bytes == 0) return to;
  check(cudaMemcpy(to.data(), from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
  return to;
}

// The index of a tensor in this list.
int number_of(const std::string& name) {
  const char* const names[] = {"Q", "K", "V", "O", "dO", "dQ", "dK", "dV"};
  return static_cast<int>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

Tensor strides(const DeviceTensor::Shape& s, Layout layout, const std::string& name) {
  Tensor t = contiguous(nullptr, s.heads, s.seq, s.head_dim);
  switch (layout) {
    case Layout::kBHSD:
      break;
    case Layout::kBSHD:
      t.row_stride = std::int64_t{s.heads} * s.head_dim;
      t.head_stride = s.head_dim;
      break;
    case Layout::kPadded:  // Multiples of 16 bytes, but not of 128.
      t.row_stride = s.head_dim + 8 * (2 * number_of(name) + 1);
      t.head_stride = s.seq * t.row_stride + 24;
      t.batch_stride = s.heads * t.head_stride + 40;
      break;
    case Layout::kSpaced:
      t.head_stride += kTileRows * t.row_stride;
      t.batch_stride = s.heads * t.head_stride;
      break;
    case Layout::kFar:
      t.batch_stride += std::int64_t{1} << 31;
      break;
    case Layout::kExpanded:
      t.batch_stride = t.head_stride = 0;
      break;
  }
  return t;
}

// The number of elements from the first to the last of `batches`, with the gap after the last head
// if the layout has one after each head.
std::size_t extent(const DeviceTensor::Shape& s, const Tensor& t, Layout layout, int batches) {
  if (layout == Layout::kSpaced) return static_cast<std::size_t>(batches * t.batch_stride);
  return static_cast<std::size_t>((batches - 1) * t.batch_stride + (s.heads - 1) * t.head_stride +
                                  (s.seq - 1) * t.row_stride + s.head_dim);
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes, std::size_t guard_bytes, std::string name)
    : name_(std::move(name)),
      guard_bytes_(guard_bytes),
      memory_(bytes + 2 * guard_bytes, name_.c_str()) {
  const std::vector<std::byte> guard(guard_bytes, kGuard);
  to_device(memory_.data(), guard);
  to_device(data() + bytes, guard);
}

void GuardedBuffer::fill_nan() const {
  if (bytes() > 0) check(cudaMemset(data(), kNaN, bytes()), "cudaMemset");
}

std::string GuardedBuffer::damage() const {
  if (!untouched(from_device(memory_.data(), guard_bytes_))) {
    return "bytes before the start of " + name_ + " were written";
  }
  if (!untouched(from_device(data() + bytes(), guard_bytes_))) {
    return "bytes after the end of " + name_ + " were written";
  }
  return "";
}

DeviceTensor::DeviceTensor(const Shape& shape, DType dtype, Layout layout, std::size_t guard_bytes,
                           std::string name)
    : shape_(shape),
      dtype_(dtype),
      name_(std::move(name)),
      view_(strides(shape, layout, name_)),
      image_batches_(layout == Layout::kFar ? 1 : shape.batch),
      image_bytes_(extent(shape, view_, layout, image_batches_) * element_bytes(dtype)),
      buffer_(extent(shape, view_, layout, shape.batch) * element_bytes(dtype), guard_bytes,
              name_) {
  view_.data = buffer_.data();
}

std::byte* DeviceTensor::image_data(int image) const {
  return buffer_.data() + image * image_batches_ * view_.batch_stride * element_bytes(dtype_);
}

template <class F>
void DeviceTensor::for_each_row(int image, F&& f) const {
  std::int64_t dense =
      std::int64_t{image} * image_batches_ * shape_.heads * shape_.seq * shape_.head_dim;
  for (int b = 0; b < image_batches_; ++b) {
    for (int h = 0; h < shape_.heads; ++h) {
      for (int i = 0; i < shape_.seq; ++i, dense += shape_.head_dim) {
        const std::int64_t at =
            b * view_.batch_stride + h * view_.head_stride + i * view_.row_stride;
        f(at * element_bytes(dtype_), dense);
      }
    }
  }
}

void DeviceTensor::upload(const std::vector<float>& values) const {
  for (int n = 0; n < shape_.batch / image_batches_; ++n) {
    std::vector<std::byte> image(image_bytes_, std::byte{kNaN});
    for_each_row(n, [&](std::size_t at, std::int64_t dense) {
      encode(dtype_, &values[dense], shape_.head_dim, &image[at]);
    });
    to_device(image_data(n), image);
  }
}

void DeviceTensor::poison() const {
  for (int n = 0; n < shape_.batch / image_batches_; ++n) {
    std::vector<std::byte> image(image_bytes_, kGuard);
    for_each_row(n, [&](std::size_t at, std::int64_t) {
      std::memset(&image[at], kNaN, shape_.head_dim * element_bytes(dtype_));
    });
    to_device(image_data(n), image);
  }
}

std::vector<float> DeviceTensor::download(std::string* damage) const {
  std::vector<float> values(std::size_t(shape_.batch) * shape_.heads * shape_.seq *
                            shape_.head_dim);
  if (damage != nullptr) *damage = buffer_.damage();
  for (int n = 0; n < shape_.batch / image_batches_; ++n) {
    std::vector<std::byte> image = from_device(image_data(n), image_bytes_);
    for_each_row(n, [&](std::size_t at, std::int64_t dense) {
      decode(dtype_, &image[at], shape_.head_dim, &values[dense]);
      std::memset(&image[at], static_cast<int>(kGuard), shape_.head_dim * element_bytes(dtype_));
    });
    if (damage != nullptr && !untouched(image)) {
      *damage = "bytes in the gaps between the rows of " + name_ + " were written";
    }
  }
  return values;
}

}  // namespace cuflash::harness
