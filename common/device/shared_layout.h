// The layout of a launch's dynamic shared memory: its size in bytes.
#ifndef CUFLASH_DEVICE_SHARED_LAYOUT_H_
#define CUFLASH_DEVICE_SHARED_LAYOUT_H_

#include <cstddef>

namespace cuflash {

struct SharedLayout {
  std::size_t bytes = 0;

  constexpr SharedLayout() = default;
  constexpr SharedLayout(std::size_t bytes) : bytes(bytes) {}  // NOLINT: a count is a layout
};

template <class Storage>
constexpr SharedLayout shared_layout() {
  return sizeof(Storage);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_SHARED_LAYOUT_H_
