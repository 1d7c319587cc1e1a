/// @file round.h
/// Rounding of a float to the nearest f16 or bf16 value, ties to even (IEEE 754-2019, 4.3.1), by
/// integer arithmetic on its bits; no CUDA type is involved. The result is again a float.
#ifndef CUFLASH_REFERENCE_ROUND_H_
#define CUFLASH_REFERENCE_ROUND_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cuflash/problem.h"

namespace cuflash::reference {

/// Rounds a float to the values of a dtype.
using Round = float (*)(float);

/// Drops the lowest `kDropped` bits of the significand, to nearest even. A carry runs on into the
/// exponent, which is just what rounding up to the next power of two means.
template <int kDropped>
float round_significand(float x) {
  constexpr std::uint32_t kHalf = 1u << (kDropped - 1);
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const std::uint32_t odd = bits >> kDropped & 1u;
  bits = (bits + kHalf - 1 + odd) & ~(2 * kHalf - 1);
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

/// f32: every float stays.
inline float round_f32(float x) { return x; }

/// bf16: f32's exponent, 8 bits of significand, so 16 of f32's 24 are dropped.
inline float round_bf16(float x) { return std::isnan(x) ? x : round_significand<16>(x); }

/// f16: 11 bits of significand, so 13 of f32's 24 are dropped; largest value 65504; below 2⁻¹⁴ the
/// values are the multiples of 2⁻²⁴.
inline float round_f16(float x) {
  const float magnitude = std::fabs(x);
  if (std::isnan(x) || std::isinf(x)) return x;
  float rounded;
  if (magnitude < 0x1p-14f) {
    rounded = (magnitude + 0.5f) - 0.5f;  // Floats in [0.5, 1) are the multiples of 2⁻²⁴.
  } else {
    rounded = round_significand<13>(magnitude);
    if (rounded > 65504.f) rounded = std::numeric_limits<float>::infinity();
  }
  return std::copysign(rounded, x);
}

/// The rounding of a dtype.
inline Round rounding(DType dtype) {
  switch (dtype) {
    case CUFLASH_F32:
      return round_f32;
    case CUFLASH_F16:
      return round_f16;
    case CUFLASH_BF16:
      return round_bf16;
  }
  return nullptr;
}

}  // namespace cuflash::reference

#endif  // CUFLASH_REFERENCE_ROUND_H_
