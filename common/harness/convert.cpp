#include "harness/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/instances.h"
#include "reference/round.h"

namespace cuflash::harness {

static_assert(EveryType::kSet.bits == (1u << kDTypes.size()) - 1,
              "EveryType has a type for each row of dtype.h");

void encode(DType dtype, const float* values, std::size_t count, std::byte* bytes) {
  with_type(EveryType{}, dtype, [&](auto type) {
    using T = typename decltype(type)::Type;
    for (std::size_t i = 0; i < count; ++i) {
      const T value = static_cast<T>(values[i]);
      std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
    }
  });
}

void decode(DType dtype, const std::byte* bytes, std::size_t count, float* values) {
  with_type(EveryType{}, dtype, [&](auto type) {
    using T = typename decltype(type)::Type;
    for (std::size_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
      values[i] = static_cast<float>(value);
    }
  });
}

void round_to(DType dtype, std::vector<float>& values) {
  const auto round = reference::rounding(dtype);
  for (float& value : values) value = round(value);
}

double half_ulp(DType dtype, double magnitude) {
  const DTypeFacts& facts = *find_dtype(dtype);
  const int exponent = magnitude > 0 ? std::ilogb(magnitude) : facts.min_exponent;
  return std::ldexp(0.5, std::max(exponent, facts.min_exponent) - facts.fraction_bits);
}

}  // namespace cuflash::harness
