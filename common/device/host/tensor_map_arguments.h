// The description of a tensor and of the box that one asynchronous copy (TMA) transfers: the
// arguments of make_tensor_map(), checked on the host for both backends.
#ifndef CUFLASH_DEVICE_HOST_TENSOR_MAP_ARGUMENTS_H_
#define CUFLASH_DEVICE_HOST_TENSOR_MAP_ARGUMENTS_H_

#include <cstdint>
#include <sstream>
#include <string>

#include "cuflash/dtype.h"

namespace cuflash {

// The order of a box's chunks of 16 bytes in shared memory: unchanged, or permuted by Swizzle
// (device/swizzle.h) for rows of 64 or 128 bytes.
enum class TensorSwizzle { kNone = 0, k64Bytes = 64, k128Bytes = 128 };

// A tensor of rank 4. Dimension 0 is the innermost: its elements are neighbours.
struct TensorMapArguments {
  static constexpr int kRank = 4;

  const void* data = nullptr;
  DType dtype = CUFLASH_F16;
  // In elements. The strides are those of dimensions 1 to 3; where the extent is 1, any value will
  // do.
  std::int64_t extents[kRank] = {}, strides[kRank - 1] = {};
  int box[kRank] = {};
  TensorSwizzle swizzle = TensorSwizzle::kNone;

  int box_row_bytes() const { return box[0] * kElementBytes; }
  int box_bytes() const { return box_row_bytes() * box[1] * box[2] * box[3]; }
  // The bytes from one index of a dimension to the next. If the extent is 1, the size of the
  // dimension before, rounded up to whole chunks.
  std::int64_t stride(int dimension) const {
    if (dimension == 0) return kElementBytes;
    if (extents[dimension] != 1) return strides[dimension - 1] * kElementBytes;
    constexpr std::int64_t kMost = kStrideLimit - kChunkBytes;
    const std::int64_t step = stride(dimension - 1), steps = extents[dimension - 1];
    if (step > 0 && steps > kMost / step) return kMost;
    return (step * steps + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
  }

  static constexpr int kElementBytes = 2;
  static constexpr int kChunkBytes = 16;
  static constexpr std::int64_t kStrideLimit = std::int64_t{1} << 40;  // in bytes
};

// All arguments in one line.
inline std::string in_words(const TensorMapArguments& map) {
  std::ostringstream text;
  const DTypeFacts* const facts = find_dtype(map.dtype);
  const auto list = [&](const char* name, const auto& values) {
    const char* separator = " [";
    text << ", " << name;
    for (const auto value : values) text << separator << value, separator = ", ";
    text << ']';
  };
  text << "data " << map.data << ", dtype " << (facts != nullptr ? facts->name : "unknown");
  list("extents", map.extents);
  list("strides", map.strides);
  list("box", map.box);
  text << ", swizzle " << static_cast<int>(map.swizzle) << " bytes";
  return text.str();
}

// Why no map can be made of the arguments, in a sentence that lists them; empty if one can. The
// limits are the driver's (cuTensorMapEncodeTiled), with one addition: a swizzled row must fill the
// swizzle's span, because the layout of shorter rows is undocumented. By the manual, each stride
// also steps over the dimension before it. Here strides need only ascend: drivers accept
// overlapping rows, such as a stride of 0, though the manual does not promise it.
inline std::string tensor_map_fault(const TensorMapArguments& map) {
  constexpr std::int64_t kMaxExtent = std::int64_t{1} << 32;
  constexpr int kMaxBox = 256, kAlignment = TensorMapArguments::kChunkBytes;
  const auto fault = [&](const std::string& sentence) {
    return sentence + " The arguments: " + in_words(map) + '.';
  };
  if (element_bytes(map.dtype) != TensorMapArguments::kElementBytes) {
    return fault("A tensor map needs elements of 16 bits.");
  }
  if (map.data == nullptr || reinterpret_cast<std::uintptr_t>(map.data) % kAlignment != 0) {
    return fault("The data of a tensor map must begin at a multiple of 16 bytes.");
  }
  std::int64_t last_stride = 0;
  for (int i = 0; i < TensorMapArguments::kRank; ++i) {
    const auto dimension = [i] { return "dimension " + std::to_string(i); };
    if (map.extents[i] < 1 || map.extents[i] > kMaxExtent) {
      return fault("The extent of " + dimension() +
                   " of a tensor map must be at least 1 and at most 2^32.");
    }
    if (map.stride(i) < 0 || map.stride(i) >= TensorMapArguments::kStrideLimit ||
        (i > 0 && map.stride(i) % kAlignment != 0)) {
      return fault(
          "The stride of " + dimension() +
          " of a tensor map must be a multiple of 16 bytes, at least 0 and less than 2^40.");
    }
    if (i > 0 && map.extents[i] > 1) {
      if (map.stride(i) < last_stride) {
        return fault("The strides of a tensor map must ascend; that of " + dimension() +
                     " does not.");
      }
      last_stride = map.stride(i);
    }
    if (map.box[i] < 1 || map.box[i] > kMaxBox) {
      return fault("The box of a tensor map must have 1 to 256 elements in " + dimension() + '.');
    }
  }
  if (map.box_row_bytes() % kAlignment != 0) {
    return fault("The rows of a tensor map's box must be a multiple of 16 bytes.");
  }
  if (map.swizzle != TensorSwizzle::kNone && map.box_row_bytes() != static_cast<int>(map.swizzle)) {
    return fault("The rows of a swizzled box must be as long as the span of the swizzle.");
  }
  return {};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_HOST_TENSOR_MAP_ARGUMENTS_H_
