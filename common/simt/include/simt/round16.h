/// @file
/// Rounding between 16-bit formats and the types around them: the core that cuda_fp16.h and
/// cuda_bf16.h of the CPU simulator share.
///
/// Everything that rounds to 16 bits is integer arithmetic on bit patterns. The results are the
/// same at every -O level, with any rounding mode or flush-to-zero flag of the host thread (a
/// library built with -ffast-math sets the latter for the whole process), and no code needs F16C.
#ifndef CUFLASH_SIMT_ROUND16_H_
#define CUFLASH_SIMT_ROUND16_H_

#include <cstdint>
#include <limits>

#include "host_defines.h"

#ifdef __FAST_MATH__
#error "The simulator's 16-bit types need IEEE arithmetic: compile without -ffast-math."
#endif

namespace cuflash::simt {

enum class Round { kNearestEven, kTowardZero, kDown, kUp };

/// An IEEE binary format with kMantissaBits stored bits; Bits is the unsigned type that holds it.
template <class BitsType, int kStoredMantissaBits, int kExponentBias>
struct BinaryFormat {
  using Bits = BitsType;
  static constexpr int kWidth = 8 * sizeof(Bits);
  static constexpr int kMantissaBits = kStoredMantissaBits;
  static constexpr int kBias = kExponentBias;
  static constexpr Bits kInfinity = static_cast<Bits>(Bits{2 * kBias + 1} << kMantissaBits);
};
using HalfFormat = BinaryFormat<std::uint16_t, 10, 15>;
using Bfloat16Format = BinaryFormat<std::uint16_t, 7, 127>;

template <class Float>
struct FormatOf;
template <>
struct FormatOf<float> : BinaryFormat<std::uint32_t, 23, 127> {};
template <>
struct FormatOf<double> : BinaryFormat<std::uint64_t, 52, 1023> {};

/// The one NaN that CUDA's conversions to either 16-bit format return.
inline constexpr std::uint16_t kCanonicalNan16 = 0x7fff;

/// Drops the low `shift` bits of a magnitude and rounds what is left. A carry out of the mantissa
/// moves into the exponent above it, which is the next representable number.
template <Round kRound, class Bits>
__host__ __device__ __forceinline__ constexpr Bits shift_right(Bits x, int shift, bool negative) {
  const Bits dropped = (Bits{1} << shift) - 1;
  if constexpr (kRound == Round::kNearestEven) {
    return (x + (dropped >> 1) + ((x >> shift) & 1)) >> shift;
  } else if constexpr (kRound == Round::kTowardZero) {
    return x >> shift;
  } else {
    const bool away = negative == (kRound == Round::kDown);
    return (x + (away ? dropped : 0)) >> shift;
  }
}

/// The magnitude bits of a finite value too large for `Format`.
template <class Format, Round kRound>
__host__ __device__ __forceinline__ constexpr unsigned overflow16(bool negative) {
  const bool stays_finite = kRound == Round::kTowardZero || (kRound == Round::kDown && !negative) ||
                            (kRound == Round::kUp && negative);
  return Format::kInfinity - (stays_finite ? 1u : 0u);
}

/// A float or double rounded once to a 16-bit format.
template <class Format, Round kRound = Round::kNearestEven, class Float>
__host__ __device__ __forceinline__ constexpr std::uint16_t encode16(Float value) {
  using Source = FormatOf<Float>;
  using Bits = typename Source::Bits;
  constexpr int kDropped = Source::kMantissaBits - Format::kMantissaBits;
  constexpr int kRebias = Source::kBias - Format::kBias;
  constexpr Bits kHiddenBit = Bits{1} << Source::kMantissaBits;
  constexpr Bits kMinNormal = (kRebias + 1) * kHiddenBit;
  constexpr Bits kOverflow = (kRebias + 2 * Format::kBias + 1) * kHiddenBit;

  const Bits bits = __builtin_bit_cast(Bits, value);
  const Bits magnitude = bits & (~Bits{0} >> 1);
  const bool negative = (bits >> (Source::kWidth - 1)) != 0;
  const unsigned sign = negative ? 0x8000u : 0u;

  Bits rounded = 0;
  if (magnitude >= kOverflow) {
    if (magnitude > Source::kInfinity) return kCanonicalNan16;
    rounded =
        magnitude == Source::kInfinity ? Format::kInfinity : overflow16<Format, kRound>(negative);
  } else if (kRebias == 0 || magnitude >= kMinNormal) {
    rounded = shift_right<kRound, Bits>(magnitude - kRebias * kHiddenBit, kDropped, negative);
  } else {
    // Subnormal in the target: the hidden bit becomes a bit like the others. The clamp keeps the
    // shift defined; all bits are then cut off, and only whether any of them is set matters.
    const int exponent = static_cast<int>(magnitude >> Source::kMantissaBits);
    const Bits mantissa = exponent == 0 ? magnitude : ((magnitude & (kHiddenBit - 1)) | kHiddenBit);
    const int shift = kDropped + kRebias + 1 - (exponent == 0 ? 1 : exponent);
    const int clamped = shift < Source::kWidth ? shift : Source::kWidth - 1;
    rounded = shift_right<kRound, Bits>(mantissa, clamped, negative);
  }
  return static_cast<std::uint16_t>(sign | static_cast<unsigned>(rounded));
}

/// An integer rounded once to a 16-bit format.
template <class Format, Round kRound = Round::kNearestEven, class Int>
__host__ __device__ __forceinline__ constexpr std::uint16_t encode16_integer(Int value) {
  const bool negative = value < Int{0};
  std::uint64_t magnitude = static_cast<std::uint64_t>(value);
  if (negative) magnitude = 0 - magnitude;
  double scale = negative ? -1.0 : 1.0;
  if ((magnitude >> 53) != 0) {
    // More than a double holds: fold the low bits into one that says "not exact".
    magnitude = (magnitude >> 11) | ((magnitude & 0x7ff) != 0 ? 1 : 0);
    scale *= 2048.0;
  }
  return encode16<Format, kRound>(static_cast<double>(static_cast<std::int64_t>(magnitude)) *
                                  scale);
}

/// The float that a 16-bit pattern stands for; exact.
template <class Format>
__host__ __device__ __forceinline__ constexpr float decode16(std::uint16_t bits) {
  if constexpr (Format::kBias == FormatOf<float>::kBias) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  } else {
    constexpr int kMissing = 23 - Format::kMantissaBits;
    constexpr std::uint32_t kRebias = std::uint32_t{127 - Format::kBias} << 23;
    constexpr std::uint32_t kMinNormal = 1u << Format::kMantissaBits;
    const std::uint32_t magnitude = bits & 0x7fffu;
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    std::uint32_t wide = (magnitude << kMissing) + kRebias;
    if (magnitude < kMinNormal) {
      // No float subnormal takes part, so that flush-to-zero cannot change it. 2^-24 for half.
      constexpr float kUnit = __builtin_bit_cast(float, kRebias + (1u << 23)) / kMinNormal;
      wide = __builtin_bit_cast(std::uint32_t,
                                static_cast<float>(static_cast<std::int32_t>(magnitude)) * kUnit);
    } else if (magnitude >= Format::kInfinity) {
      // CUDA drops the sign and the payload of a NaN.
      if (magnitude > Format::kInfinity) return __builtin_bit_cast(float, 0x7fffffffu);
      wide = FormatOf<float>::kInfinity;
    }
    return __builtin_bit_cast(float, wide | sign);
  }
}

/// A float rounded to an integral value, which is still a float. Keeps the sign of zero.
template <Round kRound>
__host__ __device__ __forceinline__ constexpr float round_to_integral(float x) {
  const float magnitude = x < 0 ? -x : x;
  if (!(magnitude < 8388608.0f)) return x;  // from 2^23 on every float is an integer; NaN, infinity
  const std::int32_t truncated = static_cast<std::int32_t>(x);
  const float fraction = x - static_cast<float>(truncated);
  std::int32_t result = truncated;
  if constexpr (kRound == Round::kDown) {
    result -= fraction < 0 ? 1 : 0;
  } else if constexpr (kRound == Round::kUp) {
    result += fraction > 0 ? 1 : 0;
  } else if constexpr (kRound == Round::kNearestEven) {
    const float distance = fraction < 0 ? -fraction : fraction;
    const bool away = distance > 0.5f || (distance == 0.5f && (truncated & 1) != 0);
    result += away ? (x < 0 ? -1 : 1) : 0;
  }
  return __builtin_copysignf(static_cast<float>(result), x);
}

/// A float rounded to an integer as PTX's cvt does: saturated; a NaN gives 0, in 64 bits 2^63.
template <class Int, Round kRound = Round::kTowardZero>
__host__ __device__ __forceinline__ constexpr Int to_integer(float x) {
  using Limits = std::numeric_limits<Int>;
  if (x != x) {
    return sizeof(Int) < 8 ? Int{0} : static_cast<Int>(std::uint64_t{1} << 63);
  }
  // 2^digits: the first value out of range. max() itself need not be a float.
  const float limit = static_cast<float>(std::uint64_t{1} << (Limits::digits - 1)) * 2.0f;
  const float rounded = round_to_integral<kRound>(x);
  if (rounded >= limit) return Limits::max();
  if (rounded < (Limits::is_signed ? -limit : 0.0f)) return Limits::min();
  return static_cast<Int>(rounded);
}

/// a * b + c rounded to odd: an even last bit guarantees that nothing was cut off, so rounding the
/// result again, to 16 bits, rounds only once. The product of two 16-bit numbers is exact.
///
/// Without it bf16's fma is wrong: 1 + 2^-8 (a tie) + 2^-100 would lose the bit that breaks the
/// tie.
__host__ __device__ __forceinline__ double fma_to_odd(double a, double b, double c) {
  const double product = a * b;
  const double sum = product + c;
  const double c_seen = sum - product;  // Knuth's TwoSum: `error` is what `sum` left out, exactly
  const double error = (product - (sum - c_seen)) + (c - c_seen);
  std::uint64_t bits = __builtin_bit_cast(std::uint64_t, sum);
  if ((error > 0 || error < 0) &&
      (bits & 1) == 0) {  // false for a NaN: infinities stay as they are
    bits += (error > 0) == (sum > 0) ? 1 : -1;
  }
  return __builtin_bit_cast(double, bits);
}

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_ROUND16_H_
