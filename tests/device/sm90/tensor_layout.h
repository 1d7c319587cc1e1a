// A tensor in memory and the arguments of its maps, for the tests of copies and stores of boxes.
#ifndef CUFLASH_TESTS_DEVICE_SM90_TENSOR_LAYOUT_H_
#define CUFLASH_TESTS_DEVICE_SM90_TENSOR_LAYOUT_H_

#include <algorithm>
#include <cstdint>

#include "device/host/tensor_map.h"

namespace cuflash {

// Extents and strides in elements, the innermost dimension first.
struct Layout {
  std::int64_t extents[4], strides[4];

  std::size_t elements() const {
    std::int64_t last = 0;
    for (int i = 0; i < 4; ++i) last += (extents[i] - 1) * strides[i];
    return static_cast<std::size_t>(last + 1);
  }
};

inline TensorMapArguments arguments(const void* data, DType dtype, const Layout& layout,
                                    const int (&box)[4], TensorSwizzle swizzle) {
  TensorMapArguments arguments;
  arguments.data = data;
  arguments.dtype = dtype;
  std::copy_n(layout.extents, 4, arguments.extents);
  std::copy_n(layout.strides + 1, 3, arguments.strides);
  std::copy_n(box, 4, arguments.box);
  arguments.swizzle = swizzle;
  return arguments;
}

}  // namespace cuflash

#endif  // CUFLASH_TESTS_DEVICE_SM90_TENSOR_LAYOUT_H_
