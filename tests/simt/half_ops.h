// A table of operations on bit patterns, by which the simulator's cuda_fp16.h and cuda_bf16.h are
// compared with CUDA's. Include it after one family of headers: half_test.cpp compiles it with the
// simulator's, half_oracle.cpp with CUDA's. The same text must compile with both.
#ifndef CUFLASH_TESTS_SIMT_HALF_OPS_H_
#define CUFLASH_TESTS_SIMT_HALF_OPS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

enum class Operand { kNone, k16, kPair, kFloat, kDouble, kInteger };

struct Operation {
  const char* name;
  bool bf16;
  Operand a, b;
  std::size_t a_bytes;
  std::uint64_t (*run)(std::uint64_t a, std::uint64_t b);
};

/// CUDA's own table; null where the oracle was built without CUDA's headers.
const Operation* oracle_operations(std::size_t* count);

namespace {

template <class X>
constexpr Operand operand_of() {
  if (std::is_same_v<X, float>) return Operand::kFloat;
  if (std::is_same_v<X, double>) return Operand::kDouble;
  if (std::is_integral_v<X>) return Operand::kInteger;
  return sizeof(X) == 2 ? Operand::k16 : Operand::kPair;
}

template <class X>
X from_bits(std::uint64_t bits) {
  X x;
  std::memcpy(static_cast<void*>(&x), &bits, sizeof x);
  return x;
}

template <class X>
std::uint64_t to_bits(const X& x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}

// The expressions that compile, as bits. What is ambiguous with one family must be so with both.
template <class A, class B, class = void>
constexpr unsigned kAdds = 0;
template <class A, class B>
constexpr unsigned kAdds<A, B, std::void_t<decltype(std::declval<A>() + std::declval<B>())>> = 1;
template <class A, class B, class = void>
constexpr unsigned kEquals = 0;
template <class A, class B>
constexpr unsigned kEquals<A, B, std::void_t<decltype(std::declval<A>() == std::declval<B>())>> = 2;
template <class A, class B, class = void>
constexpr unsigned kAddsTo = 0;
template <class A, class B>
constexpr unsigned kAddsTo<A, B, std::void_t<decltype(std::declval<A&>() += std::declval<B>())>> =
    4;
template <class B, class A>
constexpr unsigned compiles(const A&) {
  return kAdds<A, B> | kEquals<A, B> | kAddsTo<A, B> | (std::is_assignable_v<A&, B> ? 8u : 0u) |
         (std::is_constructible_v<A, B> ? 16u : 0u) | (std::is_constructible_v<B, A> ? 32u : 0u) |
         (std::is_convertible_v<A, B> ? 64u : 0u) | (std::is_convertible_v<B, A> ? 128u : 0u);
}

// One row: an expression of `a`, or of `a` and `b`.
#define CUFLASH_UNARY(A, expression)                                                       \
  table.push_back({#A ": " #expression, kBf16, operand_of<A>(), Operand::kNone, sizeof(A), \
                   [](std::uint64_t x, std::uint64_t) {                                    \
                     A a = from_bits<A>(x);                                                \
                     return to_bits(expression);                                           \
                   }});
#define CUFLASH_BINARY(A, B, expression)                                                 \
  table.push_back({#A ", " #B ": " #expression, kBf16, operand_of<A>(), operand_of<B>(), \
                   sizeof(A), [](std::uint64_t x, std::uint64_t y) {                     \
                     A a = from_bits<A>(x);                                              \
                     B b = from_bits<B>(y);                                              \
                     return to_bits(expression);                                         \
                   }});

#define CUFLASH_COMPARISON(op)                  \
  CUFLASH_BINARY(T, T, __h##op(a, b))           \
  CUFLASH_BINARY(T2, T2, __h##op##2(a, b))      \
  CUFLASH_BINARY(T2, T2, __h##op##2_mask(a, b)) \
  CUFLASH_BINARY(T2, T2, __hb##op##2(a, b))
#define CUFLASH_ARITHMETIC(function, function2, op) \
  CUFLASH_BINARY(T, T, function(a, b))              \
  CUFLASH_BINARY(T2, T2, function2(a, b))           \
  CUFLASH_BINARY(T, T, a op b)                      \
  CUFLASH_BINARY(T2, T2, a op b)                    \
  CUFLASH_BINARY(T, T, a op## = b)                  \
  CUFLASH_BINARY(T2, T2, a op## = b)
#define CUFLASH_RELATION(op)   \
  CUFLASH_BINARY(T, T, a op b) \
  CUFLASH_BINARY(T2, T2, a op b)
#define CUFLASH_INTEGER(n, name, I)        \
  CUFLASH_UNARY(I, T(a))                   \
  CUFLASH_UNARY(I, (T() = a))              \
  CUFLASH_UNARY(I, __##name##2##n##_rn(a)) \
  CUFLASH_UNARY(T, __##n##2##name##_rz(a)) \
  CUFLASH_UNARY(T, static_cast<I>(a))

// `n` is what CUDA puts into the names: half or bfloat16.
#define CUFLASH_TABLE16(n)                                  \
  CUFLASH_UNARY(float, T(a))                                \
  CUFLASH_UNARY(float, (T() = a))                           \
  CUFLASH_UNARY(float, __float2##n(a))                      \
  CUFLASH_UNARY(float, __float2##n##_rn(a))                 \
  CUFLASH_UNARY(float, __float2##n##_rz(a))                 \
  CUFLASH_UNARY(float, __float2##n##_rd(a))                 \
  CUFLASH_UNARY(float, __float2##n##_ru(a))                 \
  CUFLASH_UNARY(float, __float2##n##2_rn(a))                \
  CUFLASH_UNARY(double, T(a))                               \
  CUFLASH_UNARY(double, (T() = a))                          \
  CUFLASH_UNARY(double, __double2##n(a))                    \
  CUFLASH_UNARY(T, float(a))                                \
  CUFLASH_UNARY(T, double(a))                               \
  CUFLASH_UNARY(T, __##n##2float(a))                        \
  CUFLASH_UNARY(T, static_cast<Other>(a))                   \
  CUFLASH_INTEGER(n, short, short)                          \
  CUFLASH_INTEGER(n, ushort, unsigned short)                \
  CUFLASH_INTEGER(n, int, int)                              \
  CUFLASH_INTEGER(n, uint, unsigned int)                    \
  CUFLASH_INTEGER(n, ll, long long)                         \
  CUFLASH_INTEGER(n, ull, unsigned long long)               \
  CUFLASH_UNARY(long, T(a))                                 \
  CUFLASH_UNARY(unsigned long, T(a))                        \
  CUFLASH_UNARY(T, static_cast<long>(a))                    \
  CUFLASH_UNARY(T, static_cast<unsigned long>(a))           \
  CUFLASH_UNARY(T, static_cast<char>(a))                    \
  CUFLASH_UNARY(T, static_cast<bool>(a))                    \
  CUFLASH_UNARY(T, __##n##2char_rz(a))                      \
  CUFLASH_UNARY(T, __##n##2uchar_rz(a))                     \
  CUFLASH_UNARY(T, __##n##_as_ushort(a))                    \
  CUFLASH_UNARY(T, __##n##_as_short(a))                     \
  CUFLASH_UNARY(unsigned short, __ushort_as_##n(a))         \
  CUFLASH_UNARY(short, __short_as_##n(a))                   \
  CUFLASH_UNARY(T, __hneg(a))                               \
  CUFLASH_UNARY(T, __habs(a))                               \
  CUFLASH_UNARY(T, __hisnan(a))                             \
  CUFLASH_UNARY(T, __hisinf(a))                             \
  CUFLASH_UNARY(T, -a)                                      \
  CUFLASH_UNARY(T, +a)                                      \
  CUFLASH_UNARY(T, ++a)                                     \
  CUFLASH_UNARY(T, --a)                                     \
  CUFLASH_UNARY(T, a++)                                     \
  CUFLASH_UNARY(T, a--)                                     \
  CUFLASH_UNARY(T, (a ? 1 : 2))                             \
  CUFLASH_UNARY(T, __##n##2##n##2(a))                       \
  CUFLASH_UNARY(T, compiles<bool>(a))                       \
  CUFLASH_UNARY(T, compiles<char>(a))                       \
  CUFLASH_UNARY(T, compiles<short>(a))                      \
  CUFLASH_UNARY(T, compiles<int>(a))                        \
  CUFLASH_UNARY(T, compiles<unsigned>(a))                   \
  CUFLASH_UNARY(T, compiles<long>(a))                       \
  CUFLASH_UNARY(T, compiles<unsigned long>(a))              \
  CUFLASH_UNARY(T, compiles<long long>(a))                  \
  CUFLASH_UNARY(T, compiles<float>(a))                      \
  CUFLASH_UNARY(T, compiles<double>(a))                     \
  CUFLASH_UNARY(T, compiles<T2>(a))                         \
  CUFLASH_UNARY(T, compiles<Other>(a))                      \
  CUFLASH_UNARY(T, compiles<Raw2>(a))                       \
  CUFLASH_UNARY(T2, __hneg2(a))                             \
  CUFLASH_UNARY(T2, __habs2(a))                             \
  CUFLASH_UNARY(T2, __hisnan2(a))                           \
  CUFLASH_UNARY(T2, -a)                                     \
  CUFLASH_UNARY(T2, ++a)                                    \
  CUFLASH_UNARY(T2, a--)                                    \
  CUFLASH_UNARY(T2, a.x)                                    \
  CUFLASH_UNARY(T2, a.y)                                    \
  CUFLASH_UNARY(T2, T2(Raw2(a)))                            \
  CUFLASH_UNARY(T2, __low2float(a))                         \
  CUFLASH_UNARY(T2, __high2float(a))                        \
  CUFLASH_UNARY(T2, __##n##22float2(a))                     \
  CUFLASH_UNARY(T2, __float22##n##2_rn(__##n##22float2(a))) \
  CUFLASH_UNARY(T2, __low2##n(a))                           \
  CUFLASH_UNARY(T2, __high2##n(a))                          \
  CUFLASH_UNARY(T2, __low2##n##2(a))                        \
  CUFLASH_UNARY(T2, __high2##n##2(a))                       \
  CUFLASH_UNARY(T2, __lowhigh2highlow(a))                   \
  CUFLASH_BINARY(T2, T2, __lows2##n##2(a, b))               \
  CUFLASH_BINARY(T2, T2, __highs2##n##2(a, b))              \
  CUFLASH_BINARY(T, T, __halves2##n##2(a, b))               \
  CUFLASH_BINARY(T, T, make_##n##2(a, b))                   \
  CUFLASH_BINARY(T, T, T2(a, b))                            \
  CUFLASH_BINARY(float, float, __floats2##n##2_rn(a, b))    \
  CUFLASH_ARITHMETIC(__hadd, __hadd2, +)                    \
  CUFLASH_ARITHMETIC(__hsub, __hsub2, -)                    \
  CUFLASH_ARITHMETIC(__hmul, __hmul2, *)                    \
  CUFLASH_ARITHMETIC(__hdiv, __h2div, /)                    \
  CUFLASH_BINARY(T, T, __hadd_rn(a, b))                     \
  CUFLASH_BINARY(T2, T2, __hmul2_rn(a, b))                  \
  CUFLASH_BINARY(T, T, __hmax(a, b))                        \
  CUFLASH_BINARY(T, T, __hmin(a, b))                        \
  CUFLASH_BINARY(T2, T2, __hmax2(a, b))                     \
  CUFLASH_BINARY(T2, T2, __hmin2(a, b))                     \
  CUFLASH_RELATION(==)                                      \
  CUFLASH_RELATION(!=)                                      \
  CUFLASH_RELATION(<)                                       \
  CUFLASH_RELATION(<=)                                      \
  CUFLASH_RELATION(>)                                       \
  CUFLASH_RELATION(>=)                                      \
  CUFLASH_COMPARISON(eq)                                    \
  CUFLASH_COMPARISON(ne)                                    \
  CUFLASH_COMPARISON(lt)                                    \
  CUFLASH_COMPARISON(le)                                    \
  CUFLASH_COMPARISON(gt)                                    \
  CUFLASH_COMPARISON(ge)                                    \
  CUFLASH_COMPARISON(equ)                                   \
  CUFLASH_COMPARISON(neu)                                   \
  CUFLASH_COMPARISON(ltu)                                   \
  CUFLASH_COMPARISON(leu)                                   \
  CUFLASH_COMPARISON(gtu)                                   \
  CUFLASH_COMPARISON(geu)

std::vector<Operation> operations() {
  std::vector<Operation> table;
  {
    using T = __half;
    using T2 = __half2;
    using Raw2 = __half2_raw;
    using Other = __nv_bfloat16;
    constexpr bool kBf16 = false;
    CUFLASH_TABLE16(half)
    CUFLASH_UNARY(int, __int2half_rz(a))
    CUFLASH_UNARY(int, __int2half_rd(a))
    CUFLASH_UNARY(int, __int2half_ru(a))
    CUFLASH_UNARY(unsigned short, __ushort2half_rz(a))
    CUFLASH_UNARY(long long, __ll2half_rd(a))
    CUFLASH_UNARY(unsigned long long, __ull2half_ru(a))
  }
  {
    using T = __nv_bfloat16;
    using T2 = __nv_bfloat162;
    using Raw2 = __nv_bfloat162_raw;
    using Other = __half;
    constexpr bool kBf16 = true;
    CUFLASH_TABLE16(bfloat16)
  }
  return table;
}

#undef CUFLASH_TABLE16
#undef CUFLASH_INTEGER
#undef CUFLASH_RELATION
#undef CUFLASH_ARITHMETIC
#undef CUFLASH_COMPARISON
#undef CUFLASH_BINARY
#undef CUFLASH_UNARY

}  // namespace

#endif  // CUFLASH_TESTS_SIMT_HALF_OPS_H_
