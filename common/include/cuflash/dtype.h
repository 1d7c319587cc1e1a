/// @file dtype.h
/// The element types, one row each. Their names, sizes, parsing and validation follow from these
/// rows.
#ifndef CUFLASH_DTYPE_H_
#define CUFLASH_DTYPE_H_

#include <array>
#include <cstddef>
#include <iterator>

#include "cuflash/c_api.h"

namespace cuflash {

/// Element type of Q, K, V, O and their gradients. Sums and softmax are always float.
using DType = cuflash_dtype;

/// The properties of an element type.
struct DTypeFacts {
  DType dtype;        ///< the enumerator
  const char* name;   ///< the name in a problem's name, without an underscore: "f16"
  std::size_t bytes;  ///< size of one element
  int fraction_bits;  ///< bits of the significand after the leading one
  int min_exponent;   ///< the smallest normal number is 2^min_exponent
};

/// Every element type, in the order of cuflash_dtype.
inline constexpr DTypeFacts kDTypeFacts[] = {
    {CUFLASH_F32, "f32", 4, 23, -126},
    {CUFLASH_F16, "f16", 2, 10, -14},
    {CUFLASH_BF16, "bf16", 2, 7, -126},
};

/// Every element type, for loops.
inline constexpr auto kDTypes = [] {
  std::array<DType, std::size(kDTypeFacts)> all{};
  for (std::size_t n = 0; n < all.size(); ++n) all[n] = kDTypeFacts[n].dtype;
  return all;
}();

/// The row of an element type; null for any other value.
constexpr const DTypeFacts* find_dtype(DType dtype) {
  for (const DTypeFacts& facts : kDTypeFacts) {
    if (facts.dtype == dtype) return &facts;
  }
  return nullptr;
}

/// Bytes of one element; 0 for any other value.
constexpr std::size_t element_bytes(DType dtype) {
  const DTypeFacts* const facts = find_dtype(dtype);
  return facts != nullptr ? facts->bytes : 0;
}

}  // namespace cuflash

#endif  // CUFLASH_DTYPE_H_
