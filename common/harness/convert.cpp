#include "harness/convert.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/round.h"

namespace cuflash::harness {
namespace {

template <class T>
void encode_as(const float* values, std::size_t count, std::byte* bytes) {
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
void decode_as(const std::byte* bytes, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    values[i] = static_cast<float>(value);
  }
}

}  // namespace

void encode(DType dtype, const float* values, std::size_t count, std::byte* bytes) {
  switch (dtype) {
    case CUFLASH_F32:
      return encode_as<float>(values, count, bytes);
    case CUFLASH_F16:
      return encode_as<__half>(values, count, bytes);
    case CUFLASH_BF16:
      return encode_as<__nv_bfloat16>(values, count, bytes);
  }
}

void decode(DType dtype, const std::byte* bytes, std::size_t count, float* values) {
  switch (dtype) {
    case CUFLASH_F32:
      return decode_as<float>(bytes, count, values);
    case CUFLASH_F16:
      return decode_as<__half>(bytes, count, values);
    case CUFLASH_BF16:
      return decode_as<__nv_bfloat16>(bytes, count, values);
  }
}

void round_to(DType dtype, std::vector<float>& values) {
  const auto round = reference::rounding(dtype);
  for (float& value : values) value = round(value);
}

double half_ulp(DType dtype, double magnitude) {
  // Bits after the leading one, and the exponent below which numbers are subnormal.
  const int bits = dtype == CUFLASH_F32 ? 23 : dtype == CUFLASH_F16 ? 10 : 7;
  const int smallest = dtype == CUFLASH_F16 ? -14 : -126;
  const int exponent = magnitude > 0 ? std::ilogb(magnitude) : smallest;
  return std::ldexp(0.5, std::max(exponent, smallest) - bits);
}

}  // namespace cuflash::harness
