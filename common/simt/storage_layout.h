// The layout of a kernel's dynamic shared memory, with the names in its source.
#ifndef CUFLASH_SIMT_STORAGE_LAYOUT_H_
#define CUFLASH_SIMT_STORAGE_LAYOUT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "device/shared_layout.h"
#include "simt/machine.h"
#include "simt/storage_type.h"

namespace cuflash::simt {

// Offsets are bytes from the start of the storage. If a union gives one place several names, all of
// them are listed: "sQ[3][4] / sO[3][4]".
class StorageLayout {
 public:
  explicit StorageLayout(const StorageType& type);

  // In the order of their declaration.
  std::vector<SharedArray> arrays() const;
  // The name of the array at the offset, or of the nearest one before it, and where it begins.
  std::string array_name(std::size_t offset) const;
  std::size_t array_begin(std::size_t offset) const;
  // Where it ends: of several in a union, the first end.
  std::size_t array_end(std::size_t offset) const;
  // "sK[17][4]": the first element of an access of `size` bytes at the offset. Past the end of the
  // array its first index continues.
  std::string element_name(std::size_t offset, std::size_t size) const;
  // True if all of the bytes lie between or after the members of the storage. Bytes between the
  // members of a member do not count: a kernel may copy that member as a whole.
  bool is_padding(std::size_t offset, std::size_t size) const;

 private:
  struct Place {
    std::string name;
    std::size_t begin;
    std::shared_ptr<const StorageType> type;
    std::size_t end() const { return begin + type->bytes(); }
  };
  struct Gap {
    std::size_t begin, end;
  };
  void add_places(const StorageType& type, const std::string& path, std::size_t offset);
  void find_gaps(const StorageType& type);
  std::vector<const Place*> places_at(std::size_t offset) const;

  std::vector<Place> places_;
  std::vector<Gap> gaps_;
};

// The layout of a launch's storage, read on first use and kept. Null if the launch has no storage,
// or if the debug information does not describe it.
const StorageLayout* storage_layout(const SharedLayout& shared);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_STORAGE_LAYOUT_H_
