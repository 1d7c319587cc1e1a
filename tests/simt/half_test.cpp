// The simulator's 16-bit types: against CUDA's headers, and, in what these do not have for the host
// and in conversions, against an exact implementation that shares nothing with the simulator's.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <string>
#include <type_traits>

// As in the simulator's cuda_runtime.h, which this file does not include.
struct alignas(8) float2 {
  float x, y;
};

#include "half_exact.h"
#include "half_ops.h"

namespace {

static_assert(sizeof(__half) == 2 && alignof(__half) == 2 && sizeof(half2) == 4 &&
              alignof(half2) == 4 && sizeof(nv_bfloat16) == 2 && alignof(nv_bfloat16) == 2 &&
              sizeof(nv_bfloat162) == 4 && alignof(nv_bfloat162) == 4);
template <class X>
constexpr bool kPlain = std::is_trivial_v<X>;  // so that it can live in __shared__ memory
static_assert(kPlain<half> && kPlain<half2> && kPlain<nv_bfloat16> && kPlain<nv_bfloat162>);
static_assert(std::is_same_v<decltype(half() + half()), half>);
static_assert(std::is_same_v<decltype(std::declval<half&>() += half()), half&>);

// ---------------------------------------------------------------------------------------------
// Against CUDA's headers

struct Oracle {
  std::vector<Operation> ours = operations();
  const Operation* cuda = nullptr;
  std::size_t count = 0;
  Oracle() { cuda = oracle_operations(&count); }
};
const Oracle& oracle() {
  static const Oracle tables;
  return tables;
}

constexpr char kNoOracle[] =
    "CUDA's headers were not here when this test was built; the tests named SimtHalfExact compare "
    "conversions with an independent implementation.";

/// Runs `inputs(check)` for each operation of this shape; check(a, b) compares one result.
template <class Inputs>
void compare(Operand a, Operand b, const Inputs& inputs) {
  ASSERT_EQ(oracle().ours.size(), oracle().count);
  int compared = 0;
  for (std::size_t i = 0; i < oracle().count; ++i) {
    const Operation& ours = oracle().ours[i];
    const Operation& cuda = oracle().cuda[i];
    ASSERT_STREQ(ours.name, cuda.name);
    if (ours.a != a || ours.b != b) continue;
    ++compared;
    std::uint64_t mismatches = 0, x_bad = 0, y_bad = 0;
    inputs(ours, [&](std::uint64_t x, std::uint64_t y) {
      if (ours.run(x, y) != cuda.run(x, y) && mismatches++ == 0) x_bad = x, y_bad = y;
    });
    EXPECT_EQ(mismatches, 0u) << (ours.bf16 ? "bf16 " : "half ") << ours.name << std::hex
                              << ", first at a = 0x" << x_bad << ", b = 0x" << y_bad << ": 0x"
                              << ours.run(x_bad, y_bad) << ", CUDA's headers give 0x"
                              << cuda.run(x_bad, y_bad);
  }
  EXPECT_GT(compared, 0);
}

TEST(SimtHalfOracle, EveryValue) {
  if (oracle().count == 0) GTEST_SKIP() << kNoOracle;
  compare(Operand::k16, Operand::kNone, [](const Operation&, const auto& check) {
    for (std::uint64_t x = 0; x < 65536; ++x) check(x, 0);
  });
}

TEST(SimtHalfOracle, EveryValueWithChosenOnes) {
  if (oracle().count == 0) GTEST_SKIP() << kNoOracle;
  compare(Operand::k16, Operand::k16, [](const Operation& op, const auto& check) {
    const std::string name = op.name;
    const bool central = name == "T, T: __hadd(a, b)" || name == "T, T: __hmul(a, b)";
    Random random(2);
    for (int i = 0; i < (central ? 256 : 6); ++i) {
      const std::uint64_t y = pick16(random.next());
      for (std::uint64_t x = 0; x < 65536; ++x) check(x, y);
    }
  });
}

TEST(SimtHalfOracle, Pairs) {
  if (oracle().count == 0) GTEST_SKIP() << kNoOracle;
  const auto some = [](const Operation&, const auto& check) {
    Random random(3);
    for (int i = 0; i < 50000; ++i) {
      const std::uint64_t r = random.next(), s = random.next();
      // Often the same element on both sides, or relations would rarely hold for both.
      const std::uint64_t a = pick16(r) | (std::uint64_t{pick16(s)} << 16);
      check(a, i % 4 == 0 ? a : i % 4 == 1 ? a ^ 0x8000 : pick16(r * 3) | (a & 0xffff0000));
    }
  };
  compare(Operand::kPair, Operand::kNone, some);
  compare(Operand::kPair, Operand::kPair, some);
}

TEST(SimtHalfOracle, Floats) {
  if (oracle().count == 0) GTEST_SKIP() << kNoOracle;
  compare(Operand::kFloat, Operand::kNone, [](const Operation& op, const auto& check) {
    Random random(4);
    // The four modes and the default; the rest are other spellings of the same function.
    const bool central = std::strstr(op.name, "__float2") != nullptr;
    const int count = central ? 4 << 20 : 1 << 17;
    for (int i = 0; i < count; ++i) check(pick_float<float, std::uint32_t>(random), 0);
  });
  compare(Operand::kFloat, Operand::kFloat, [](const Operation&, const auto& check) {
    Random random(5);
    for (int i = 0; i < 100000; ++i) {
      const std::uint64_t a = pick_float<float, std::uint32_t>(random);
      check(a, pick_float<float, std::uint32_t>(random));
    }
  });
}

TEST(SimtHalfOracle, Doubles) {
  if (oracle().count == 0) GTEST_SKIP() << kNoOracle;
  compare(Operand::kDouble, Operand::kNone, [](const Operation&, const auto& check) {
    Random random(6);
    for (int i = 0; i < 1 << 19; ++i) check(pick_float<double, std::uint64_t>(random), 0);
  });
}

TEST(SimtHalfOracle, Integers) {
  if (oracle().count == 0) GTEST_SKIP() << kNoOracle;
  compare(Operand::kInteger, Operand::kNone, [](const Operation& op, const auto& check) {
    Random random(7);
    if (op.a_bytes == 2) {
      for (std::uint64_t x = 0; x < 65536; ++x) check(x, 0);
    } else {
      for (int i = 0; i < 1 << 17; ++i) check(pick_integer(random), 0);
    }
  });
}

// ---------------------------------------------------------------------------------------------
// Against the exact implementation

std::uint16_t bits_of(half h) { return __half_as_ushort(h); }
std::uint16_t bits_of(nv_bfloat16 h) { return __bfloat16_as_ushort(h); }
half make(std::uint16_t bits, half) { return __ushort_as_half(bits); }
nv_bfloat16 make(std::uint16_t bits, nv_bfloat16) { return __ushort_as_bfloat16(bits); }

template <class T>
class SimtHalfExact : public testing::Test {
 protected:
  static constexpr bool kBf16 = std::is_same_v<T, nv_bfloat16>;
  static T of(std::uint64_t bits) { return make(static_cast<std::uint16_t>(bits), T()); }
};
using Types = testing::Types<half, nv_bfloat16>;
TYPED_TEST_SUITE(SimtHalfExact, Types);

TYPED_TEST(SimtHalfExact, Widen) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double value = value_of(static_cast<std::uint16_t>(bits), this->kBf16);
    const float ours = float(this->of(bits));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(ours)) << bits;
      // A half's NaN loses sign and payload, a bfloat16's keeps both, as with CUDA's headers.
      ASSERT_EQ(to_bits(ours), this->kBf16 ? bits << 16 : 0x7fffffffu) << bits;
      ASSERT_EQ(bits_of(TypeParam(ours)), 0x7fff) << bits;
    } else {
      ASSERT_EQ(to_bits(ours), to_bits(static_cast<float>(value))) << bits;
      ASSERT_EQ(bits_of(TypeParam(ours)), bits) << "a value must survive the way through float";
    }
  }
}

template <class T>
std::uint16_t round_float(float x, Mode mode) {
  if constexpr (std::is_same_v<T, half>) {
    return bits_of(mode == Mode::kNearest ? __float2half_rn(x)
                   : mode == Mode::kZero  ? __float2half_rz(x)
                   : mode == Mode::kDown  ? __float2half_rd(x)
                                          : __float2half_ru(x));
  } else {
    return bits_of(mode == Mode::kNearest ? __float2bfloat16_rn(x)
                   : mode == Mode::kZero  ? __float2bfloat16_rz(x)
                   : mode == Mode::kDown  ? __float2bfloat16_rd(x)
                                          : __float2bfloat16_ru(x));
  }
}

TYPED_TEST(SimtHalfExact, Floats) {
  Random random(11);
  for (int i = 0; i < 1 << 18; ++i) {
    const float x = from_bits<float>(pick_float<float, std::uint32_t>(random));
    for (const Mode mode : {Mode::kNearest, Mode::kZero, Mode::kDown, Mode::kUp}) {
      ASSERT_EQ(round_float<TypeParam>(x, mode), expected(x, this->kBf16, mode))
          << std::hexfloat << x << " mode " << static_cast<int>(mode);
    }
  }
}

TYPED_TEST(SimtHalfExact, Integers) {
  Random random(13);
  const Format& format = this->kBf16 ? kBfloat16 : kHalf;
  for (int i = 0; i < 1 << 16; ++i) {
    const std::uint64_t bits = pick_integer(random);
    const long long x = from_bits<long long>(bits);
    const Exact sign_and_size{x < 0, x < 0 ? 0 - bits : bits, 0};
    ASSERT_EQ(bits_of(TypeParam(x)), round_exact(sign_and_size, format, Mode::kNearest)) << x;
    ASSERT_EQ(bits_of(TypeParam(static_cast<unsigned long long>(bits))),
              round_exact({false, bits, 0}, format, Mode::kNearest))
        << bits;
    const auto toward = [&](Mode mode) { return round_exact(sign_and_size, format, mode); };
    if constexpr (std::is_same_v<TypeParam, half>) {
      ASSERT_EQ(bits_of(__ll2half_rz(x)), toward(Mode::kZero)) << x;
      ASSERT_EQ(bits_of(__ll2half_rd(x)), toward(Mode::kDown)) << x;
      ASSERT_EQ(bits_of(__ll2half_ru(x)), toward(Mode::kUp)) << x;
    } else {
      ASSERT_EQ(bits_of(__ll2bfloat16_rz(x)), toward(Mode::kZero)) << x;
      ASSERT_EQ(bits_of(__ll2bfloat16_rd(x)), toward(Mode::kDown)) << x;
      ASSERT_EQ(bits_of(__ll2bfloat16_ru(x)), toward(Mode::kUp)) << x;
    }
  }
}

// PTX's cvt: round, then saturate; a NaN is 0, and 2^63 in 64 bits.
template <class Int>
Int saturated(double x) {
  if (std::isnan(x)) return sizeof(Int) == 8 ? static_cast<Int>(1ull << 63) : 0;
  if (x >= std::ldexp(1.0, std::numeric_limits<Int>::digits))
    return std::numeric_limits<Int>::max();
  if (x <= static_cast<double>(std::numeric_limits<Int>::min())) {
    return std::numeric_limits<Int>::min();
  }
  return static_cast<Int>(x);
}

TYPED_TEST(SimtHalfExact, ToIntegersInEveryMode) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const TypeParam h = this->of(bits);
    const double x = value_of(static_cast<std::uint16_t>(bits), this->kBf16);
    const double rn = std::nearbyint(x), rz = std::trunc(x), rd = std::floor(x), ru = std::ceil(x);
#define CUFLASH_CHECK(n, name, I)                           \
  ASSERT_EQ(__##n##2##name##_rn(h), saturated<I>(rn)) << x; \
  ASSERT_EQ(__##n##2##name##_rz(h), saturated<I>(rz)) << x; \
  ASSERT_EQ(__##n##2##name##_rd(h), saturated<I>(rd)) << x; \
  ASSERT_EQ(__##n##2##name##_ru(h), saturated<I>(ru)) << x
#define CUFLASH_CHECK_ALL(n)                \
  CUFLASH_CHECK(n, short, short);           \
  CUFLASH_CHECK(n, ushort, unsigned short); \
  CUFLASH_CHECK(n, int, int);               \
  CUFLASH_CHECK(n, uint, unsigned int);     \
  CUFLASH_CHECK(n, ll, long long);          \
  CUFLASH_CHECK(n, ull, unsigned long long)
    if constexpr (std::is_same_v<TypeParam, half>) {
      CUFLASH_CHECK_ALL(half);
    } else {
      CUFLASH_CHECK_ALL(bfloat16);
    }
#undef CUFLASH_CHECK_ALL
#undef CUFLASH_CHECK
    const auto rounded = [&](double y) { return expected(std::copysign(y, x), this->kBf16); };
    ASSERT_EQ(bits_of(hrint(h)), rounded(rn)) << x;
    ASSERT_EQ(bits_of(htrunc(h)), rounded(rz)) << x;
    ASSERT_EQ(bits_of(hfloor(h)), rounded(rd)) << x;
    ASSERT_EQ(bits_of(hceil(h)), rounded(ru)) << x;
  }
}

// The only arithmetic with no host path in CUDA's headers.
TYPED_TEST(SimtHalfExact, FmaRoundsOnce) {
  Random random(15);
  const Format& format = this->kBf16 ? kBfloat16 : kHalf;
  for (int i = 0; i < 1 << 19; ++i) {
    std::uint16_t a16 = pick16(random.next()), b16 = pick16(random.next());
    std::uint16_t c16 = pick16(random.next());
    if (i % 2 == 0) {
      // 1.1000001 * 2^k and the like: products halfway between two results, plus a tiny number.
      a16 = static_cast<std::uint16_t>((a16 & 0xff00) | (this->kBf16 ? 0x01 : 0x10));
      b16 = static_cast<std::uint16_t>((b16 & 0xff00) | (this->kBf16 ? 0x40 : 0x20));
    }
    const double a = value_of(a16, this->kBf16), b = value_of(b16, this->kBf16);
    const double c = value_of(c16, this->kBf16);
    const std::uint16_t want = std::isfinite(a) && std::isfinite(b) && std::isfinite(c)
                                   ? round_exact(exact_fma(a, b, c), format, Mode::kNearest)
                                   : expected(a * b + c, this->kBf16);
    ASSERT_EQ(bits_of(__hfma(this->of(a16), this->of(b16), this->of(c16))), want)
        << std::hexfloat << a << " * " << b << " + " << c;
  }
}

TEST(SimtHalf, FmaKeepsACrumbThatBreaksATie) {
  const nv_bfloat16 a = __float2bfloat16(1.0f + 0x1p-4f), crumb = __float2bfloat16(0x1p-100f);
  EXPECT_EQ(float(__hfma(a, a, crumb)), 1.0f + 0x1p-3f + 0x1p-7f);  // 1 + 2^-3 + 2^-8 and a crumb
  EXPECT_EQ(float(__hfma(a, a, -crumb)), 1.0f + 0x1p-3f);
  const nv_bfloat162 both =
      __hfma2(nv_bfloat162(a, a), nv_bfloat162(a, a), nv_bfloat162(crumb, -crumb));
  EXPECT_EQ(__low2float(both), 1.0f + 0x1p-3f + 0x1p-7f);
  EXPECT_EQ(__high2float(both), 1.0f + 0x1p-3f);
}

TEST(SimtHalf, ElementaryFunctionsAreFloatsRounded) {
  EXPECT_EQ(float(hexp(half(0.0f))), 1.0f);
  EXPECT_EQ(float(hexp2(half(-3))), 0.125f);
  EXPECT_EQ(float(hlog2(nv_bfloat16(8))), 3.0f);
  EXPECT_EQ(float(hlog(nv_bfloat16(1))), 0.0f);
  EXPECT_EQ(float(hsqrt(half(2))), float(half(std::sqrt(2.0f))));
  EXPECT_EQ(float(hrsqrt(half(4))), 0.5f);
  EXPECT_EQ(float(hrcp(nv_bfloat16(4))), 0.25f);
  EXPECT_EQ(__high2float(h2exp2(half2(1.0f, 4.0f))), 16.0f);
}

struct Pattern {
  std::uint32_t of_float;
  std::uint64_t of_double;
};
__attribute__((noinline)) std::vector<std::uint64_t> conversions(const std::vector<Pattern>& in) {
  std::vector<std::uint64_t> out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const float f = from_bits<float>(in[i].of_float);
    const double d = from_bits<double>(in[i].of_double);
    const half h = make(static_cast<std::uint16_t>(i), half());
    out.insert(out.end(), {to_bits(half(f)), to_bits(nv_bfloat16(f)), to_bits(half(d)),
                           to_bits(nv_bfloat16(d)), to_bits(nv_bfloat16(in[i].of_double)),
                           to_bits(float(h)), to_bits(int(h))});
  }
  return out;
}

// A library built with -ffast-math turns flush-to-zero on for the whole process; another may leave
// a rounding mode behind. Conversions must not notice.
TEST(SimtHalf, HostFlagsChangeNothing) {
  Random random(16);
  std::vector<Pattern> in(1 << 16);
  for (Pattern& p : in) {
    p = {pick_float<float, std::uint32_t>(random), pick_float<double, std::uint64_t>(random)};
  }
  const std::vector<std::uint64_t> want = conversions(in);
  std::fenv_t environment;
  std::fegetenv(&environment);
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
#ifdef __SSE2__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);  // flush subnormals, out and in
#endif
    const std::vector<std::uint64_t> got = conversions(in);
    std::fesetenv(&environment);
    EXPECT_TRUE(got == want) << "rounding mode " << mode;
  }
}

}  // namespace
