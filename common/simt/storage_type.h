// The type of a kernel's dynamic shared memory, read from the debug information of the program.
#ifndef CUFLASH_SIMT_STORAGE_TYPE_H_
#define CUFLASH_SIMT_STORAGE_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cuflash::simt {

struct StorageType;

struct StorageMember {
  std::string name;  // empty for an anonymous struct or union, and for a base class
  std::size_t offset;
  std::shared_ptr<const StorageType> type;
};

// A scalar has no members. A class whose data is not public counts as a scalar: __half, a barrier.
struct StorageType {
  std::size_t element_bytes = 0;
  std::vector<int> extents;            // of an array, outermost first; none for a single element
  std::vector<StorageMember> members;  // of an element that is a struct or union
  // Of SwizzledTiles (device/swizzle.h): the last two extents are a tile's rows and columns, which
  // lie in panels of this many columns. 0 for any other type.
  int panel_cols = 0;

  std::size_t bytes() const {
    std::size_t product = element_bytes;
    for (const int extent : extents) product *= static_cast<std::size_t>(extent);
    return product;
  }
};

// The template argument of the function at this address, which is a storage_type_tag<Storage>().
// Null if the debug information does not describe it.
std::shared_ptr<const StorageType> read_storage_type(std::uintptr_t function);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_STORAGE_TYPE_H_
