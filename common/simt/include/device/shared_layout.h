// The layout of a launch's dynamic shared memory, the CPU simulator's version of
// common/device/shared_layout.h: its size in bytes and its type.
#ifndef CUFLASH_DEVICE_SHARED_LAYOUT_H_
#define CUFLASH_DEVICE_SHARED_LAYOUT_H_

#include <cstddef>

namespace cuflash {

namespace simt {

#if __has_attribute(no_icf)
#define CUFLASH_OWN_ADDRESS __attribute__((no_icf))  // two empty functions are not folded into one
#else
#define CUFLASH_OWN_ADDRESS
#endif

// Never called. The debug information of the function at this address has its template argument,
// and so the arrays of the storage.
template <class Storage>
CUFLASH_OWN_ADDRESS void storage_type_tag() {}

#undef CUFLASH_OWN_ADDRESS

}  // namespace simt

struct SharedLayout {
  std::size_t bytes = 0;
  void (*storage_type)() = nullptr;  // a storage_type_tag; null for a bare count of bytes

  constexpr SharedLayout() = default;
  constexpr SharedLayout(std::size_t bytes) : bytes(bytes) {}  // NOLINT: a count is a layout
  constexpr SharedLayout(std::size_t bytes, void (*storage_type)())
      : bytes(bytes), storage_type(storage_type) {}
};

template <class Storage>
constexpr SharedLayout shared_layout() {
  return {sizeof(Storage), &simt::storage_type_tag<Storage>};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_SHARED_LAYOUT_H_
