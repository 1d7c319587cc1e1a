// Dynamic shared memory. Every kernel's has one name; a launch says how much of it there is and
// what lies in it.
#ifndef CUFLASH_DEVICE_SHARED_MEMORY_H_
#define CUFLASH_DEVICE_SHARED_MEMORY_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

namespace cuflash {

// What a launch gets without asking, and the most that compute capability 7.5 has for a block.
constexpr std::size_t kSharedBytesWithoutAsking = 48 * 1024;
constexpr std::size_t kSharedBytesOfSm75 = 64 * 1024;

extern __shared__ __align__(128) unsigned char shared_memory[];

// The dynamic shared memory as the arrays that the stage declares.
template <class Storage>
__device__ __forceinline__ Storage& shared_storage() {
  static_assert(alignof(Storage) <= 128, "shared_memory has the alignment of 128 bytes");
  return *reinterpret_cast<Storage*>(shared_memory);
}

// One array of a SharedStorage: T sK[32][33] has the extents 32 and 33.
struct SharedField {
  const char* name = nullptr;
  std::size_t offset = 0, alignment = 1, element_bytes = 0;
  int rank = 0;
  int extents[4] = {};

  constexpr std::size_t bytes() const {
    std::size_t product = element_bytes;
    for (int i = 0; i < rank; ++i) product *= extents[i];
    return product;
  }
};

template <class Array>
constexpr SharedField shared_field(const char* name, std::size_t offset) {
  static_assert(std::rank_v<Array> <= 4, "a shared array has at most four indices");
  SharedField field;
  field.name = name;
  field.offset = offset;
  field.alignment = alignof(Array);
  field.element_bytes = sizeof(std::remove_all_extents_t<Array>);
  field.rank = std::rank_v<Array>;
  field.extents[0] = std::extent_v<Array, 0>;
  field.extents[1] = std::extent_v<Array, 1>;
  field.extents[2] = std::extent_v<Array, 2>;
  field.extents[3] = std::extent_v<Array, 3>;
  return field;
}

// A row of a SharedStorage's table, `static constexpr auto fields() { return std::array{…}; }`.
#define CUFLASH_FIELD(Storage, member) \
  ::cuflash::shared_field<decltype(Storage::member)>(#member, offsetof(Storage, member))

// What a launch asks for: bytes, and the table of what lies there (none for a bare byte count).
struct SharedLayout {
  std::size_t bytes = 0;
  const SharedField* fields = nullptr;
  std::size_t num_fields = 0;

  constexpr SharedLayout() = default;
  constexpr SharedLayout(std::size_t bytes) : bytes(bytes) {}  // NOLINT: a count is a layout
  constexpr SharedLayout(std::size_t bytes, const SharedField* fields, std::size_t num_fields)
      : bytes(bytes), fields(fields), num_fields(num_fields) {}
};

constexpr std::size_t aligned(std::size_t offset, std::size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

// Does the field begin where the one before it ends, up to its alignment? alignas() may have raised
// it.
constexpr bool follows(const SharedField& field, std::size_t end) {
  for (std::size_t alignment = field.alignment; alignment <= 128; alignment *= 2) {
    if (field.offset == aligned(end, alignment)) return true;
  }
  return false;
}

// Fields in order, and no array left out.
template <class Storage, class Fields>
constexpr bool covers(const Fields& fields) {
  std::size_t end = 0;
  for (const SharedField& field : fields) {
    if (!follows(field, end)) return false;
    end = field.offset + field.bytes();
  }
  return sizeof(Storage) == aligned(end, alignof(Storage));
}

template <class Storage>
inline constexpr auto kSharedFields = Storage::fields();

template <class Storage>
constexpr SharedLayout shared_layout() {
  static_assert(covers<Storage>(kSharedFields<Storage>),
                "fields() must list every array of the storage, in order");
  return {sizeof(Storage), kSharedFields<Storage>.data(), kSharedFields<Storage>.size()};
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_SHARED_MEMORY_H_
