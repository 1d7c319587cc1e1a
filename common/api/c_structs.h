// Reads the structs of a C caller, whose header may be older or newer than this library: each
// struct begins with its own size.
#ifndef CUFLASH_API_C_STRUCTS_H_
#define CUFLASH_API_C_STRUCTS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "cuflash/stage.h"

namespace cuflash::api {

constexpr std::uint32_t kLargestStruct = 4096;  // bytes; a larger size is treated as garbage

// The size of a struct in the first version. It never changes, so that old programs still work.
template <class T>
constexpr std::uint32_t kFirstSize = 0;
template <>
constexpr std::uint32_t kFirstSize<cuflash_problem> = 40;
template <>
constexpr std::uint32_t kFirstSize<cuflash_forward_args> = 160;
template <>
constexpr std::uint32_t kFirstSize<cuflash_backward_args> = 288;
// A change of these layouts breaks every program. No struct ends in padding, where a later field
// could hide.
static_assert(sizeof(cuflash_tensor) == 32 && sizeof(cuflash_problem) == 68 &&
              sizeof(cuflash_forward_args) == 192 && sizeof(cuflash_backward_args) == 288);

// True if a byte beyond this library's fields is not 0: a newer caller has set a field there.
template <class T>
bool sets_newer_field(const T& given) {
  const char* bytes = reinterpret_cast<const char*>(&given);
  const std::uint32_t unknown = std::min<std::uint32_t>(sizeof(T), given.size);
  return std::any_of(bytes + unknown, bytes + given.size, [](char byte) { return byte != 0; });
}

// Refuses a struct that is null. `name` is the argument's name.
inline Support present(const char* name, const void* given) {
  if (given != nullptr) return {};
  return {FlashAttentionError::NULL_POINTER, std::string(name) + " is null"};
}

// Copies the caller's struct, which is present(), over `known`. Fields that an older caller's
// struct lacks keep their defaults in `known` (a Problem has no window).
template <class T>
Support read(const char* name, const T* given, T& known) {
  const auto wrong = [&](const std::string& why) {
    return Support{FlashAttentionError::INVALID_DIMENSION,
                   std::string(name) + "'s size is " + std::to_string(given->size) + why};
  };
  if (given->size < kFirstSize<T>) {
    return wrong("; it must be at least " + std::to_string(kFirstSize<T>) + " bytes");
  }
  if (given->size > kLargestStruct) {
    return wrong("; it must be at most " + std::to_string(kLargestStruct) + " bytes");
  }
  if (given->size % alignof(T) != 0) {
    return wrong("; it must be a multiple of " + std::to_string(alignof(T)) + " bytes");
  }
  if (sets_newer_field(*given)) {
    return wrong("; this library reads only " + std::to_string(sizeof(T)) +
                 " bytes, and the others are not all 0: the caller's header is newer than the "
                 "library");
  }
  std::memcpy(&known, given, std::min<std::size_t>(sizeof(T), given->size));
  return {};
}

}  // namespace cuflash::api

#endif  // CUFLASH_API_C_STRUCTS_H_
