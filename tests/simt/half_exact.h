// An exact implementation of rounding to 16 bits that shares nothing with the simulator's, and the
// inputs of half_test.cpp.
#ifndef CUFLASH_TESTS_SIMT_HALF_EXACT_H_
#define CUFLASH_TESTS_SIMT_HALF_EXACT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>

namespace {

/// splitmix64: the same inputs on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

// ---------------------------------------------------------------------------------------------
// The exact implementation: a value is m * 2^e, and rounding picks one of its two neighbours.

enum class Mode { kNearest, kZero, kDown, kUp };

struct Format {
  int bits;  // of the significand, with the leading one
  int min_exponent, max_exponent;
};
constexpr Format kHalf{11, -14, 15};
constexpr Format kBfloat16{8, -126, 127};

struct Exact {
  bool negative;
  unsigned __int128 m;
  int e;
};

int bit_length(unsigned __int128 m) {
  int length = 0;
  for (; m != 0; m >>= 1) ++length;
  return length;
}

std::uint16_t round_exact(const Exact& v, const Format& f, Mode mode) {
  const std::uint16_t sign = v.negative ? 0x8000 : 0;
  if (v.m == 0) return sign;
  const int leading = std::max(bit_length(v.m) - 1 + v.e, f.min_exponent);
  const int unit = leading - (f.bits - 1);  // the neighbours are multiples of 2^unit
  const int cut = unit - v.e;
  unsigned __int128 below = 0;
  int rest = 0;  // what is cut off, in half units: 0, less than 1, 1, more than 1 as 0, 1, 2, 3
  if (cut <= 0) {
    below = v.m << -cut;
  } else if (cut > 120) {
    rest = 1;
  } else {
    const unsigned __int128 one = 1, tail = v.m & ((one << cut) - 1), middle = one << (cut - 1);
    below = v.m >> cut;
    rest = tail == 0 ? 0 : tail < middle ? 1 : tail == middle ? 2 : 3;
  }
  const bool away = mode == Mode::kNearest ? rest == 3 || (rest == 2 && (below & 1) != 0)
                                           : rest != 0 && ((mode == Mode::kUp && !v.negative) ||
                                                           (mode == Mode::kDown && v.negative));
  unsigned significand = static_cast<unsigned>(below) + (away ? 1 : 0);
  int exponent = leading;
  if (significand >> f.bits != 0) {
    significand >>= 1;
    ++exponent;
  }
  const unsigned hidden = 1u << (f.bits - 1);
  const unsigned infinity = static_cast<unsigned>(2 * f.max_exponent + 1) << (f.bits - 1);
  if (exponent > f.max_exponent) {
    const bool to_infinity = mode == Mode::kNearest || (mode == Mode::kUp && !v.negative) ||
                             (mode == Mode::kDown && v.negative);
    return static_cast<std::uint16_t>(sign | (to_infinity ? infinity : infinity - 1));
  }
  if (significand < hidden) return static_cast<std::uint16_t>(sign | significand);
  return static_cast<std::uint16_t>(
      sign | (static_cast<unsigned>(exponent + f.max_exponent) << (f.bits - 1)) |
      (significand - hidden));
}

Exact exact(double x) {
  int e = 0;
  const double fraction = std::frexp(std::fabs(x), &e);
  return {std::signbit(x), static_cast<std::uint64_t>(std::ldexp(fraction, 53)), e - 53};
}

/// A finite product plus a finite addend. If one is far smaller than the other, a tiny number of
/// the same sign replaces it: no rounding can tell the difference.
Exact exact_fma(double a, double b, double c) {
  Exact p = exact(a * b), q = exact(c);  // the product of two 16-bit numbers is exact
  if (p.m == 0 || q.m == 0) {
    const double sum = a * b + c;
    return exact(sum);
  }
  for (Exact* v : {&p, &q}) {
    while ((v->m & 1) == 0) v->m >>= 1, ++v->e;
  }
  Exact* const high = p.e > q.e ? &p : &q;
  Exact* const low = p.e > q.e ? &q : &p;
  if (high->e - low->e > 90) {
    low->m = 1;
    low->e = high->e - 60;
  }
  const __int128 sum =
      (high->negative ? -1 : 1) * (static_cast<__int128>(high->m) << (high->e - low->e)) +
      (low->negative ? -1 : 1) * static_cast<__int128>(low->m);
  return {sum < 0, static_cast<unsigned __int128>(sum < 0 ? -sum : sum), low->e};
}

std::uint16_t expected(double x, bool bf16, Mode mode = Mode::kNearest) {
  if (std::isnan(x)) return 0x7fff;
  if (std::isinf(x))
    return static_cast<std::uint16_t>((bf16 ? 0x7f80 : 0x7c00) | (x < 0 ? 0x8000 : 0));
  return round_exact(exact(x), bf16 ? kBfloat16 : kHalf, mode);
}

double value_of(std::uint16_t bits, bool bf16) {
  const Format& f = bf16 ? kBfloat16 : kHalf;
  const int mantissa = bits & ((1 << (f.bits - 1)) - 1);
  const int exponent = (bits & 0x7fff) >> (f.bits - 1);
  double x = 0;
  if (exponent == 2 * f.max_exponent + 1) {
    x = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                      : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    x = std::ldexp(mantissa, f.min_exponent - (f.bits - 1));
  } else {
    x = std::ldexp(mantissa + (1 << (f.bits - 1)), exponent - f.max_exponent - (f.bits - 1));
  }
  return (bits & 0x8000) != 0 ? -x : x;
}

// ---------------------------------------------------------------------------------------------
// Inputs

std::uint16_t pick16(std::uint64_t r) {
  constexpr std::uint16_t kCorners[] = {0x0000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x7bff, 0x7c00,
                                        0x7e00, 0x007f, 0x0080, 0x3f80, 0x7f7f, 0x7f80, 0x7fff};
  const std::uint16_t sign = static_cast<std::uint16_t>((r >> 20) & 0x8000);
  if ((r >> 40) % 8 != 0) return static_cast<std::uint16_t>(r);
  return kCorners[(r >> 44) % std::size(kCorners)] | sign;
}

/// Half of them are any pattern; the others are at, next to or halfway between 16-bit numbers.
template <class Float, class Bits>
Bits pick_float(Random& random) {
  const std::uint64_t r = random.next();
  if (r % 2 == 0) return static_cast<Bits>(random.next());
  const bool bf16 = (r >> 1) % 2 == 0;
  const Float x = static_cast<Float>(value_of(pick16(r >> 8), bf16));
  const int dropped = std::numeric_limits<Float>::digits - (bf16 ? 8 : 11);
  Bits bits;
  std::memcpy(&bits, &x, sizeof bits);
  const Bits halfway = (r >> 2) % 2 == 0 ? 0 : Bits{1} << (dropped - 1);
  return bits + halfway + static_cast<Bits>((r >> 3) % 3) - 1;
}

std::uint64_t pick_integer(Random& random) {
  const std::uint64_t r = random.next();
  const std::uint64_t magnitude = random.next() >> (r % 64);
  const std::uint64_t nearby = (std::uint64_t{1} << (r % 64)) + (random.next() >> 62) - 1;
  const std::uint64_t x = (r >> 8) % 4 == 0 ? nearby : magnitude;
  return (r >> 10) % 2 == 0 ? x : 0 - x;
}

}  // namespace

#endif  // CUFLASH_TESTS_SIMT_HALF_EXACT_H_
