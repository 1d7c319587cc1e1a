// The CPU simulator's __nv_bfloat16 and __nv_bfloat162, instead of CUDA's cuda_bf16.h: the same
// names, and the same results to the bit (tests/simt/half_test.cpp compares them with
// CUDA's). Warp shuffles, __ldg and atomicAdd of these types belong to the simulator's
// cuda_runtime.h.
#ifndef CUFLASH_SIMT_CUDA_BF16_H_
#define CUFLASH_SIMT_CUDA_BF16_H_

#include "cuda_fp16.h"
#include "host_defines.h"
#include "simt/round16.h"

struct alignas(2) __nv_bfloat16_raw {
  unsigned short x;
};
struct alignas(4) __nv_bfloat162_raw {
  unsigned short x, y;
};

#define CUFLASH_T16 __nv_bfloat16
#define CUFLASH_T16X2 __nv_bfloat162
#define CUFLASH_RAW16 __nv_bfloat16_raw
#define CUFLASH_RAW16X2 __nv_bfloat162_raw
#define CUFLASH_OTHER16 __half
#define CUFLASH_FORMAT16 cuflash::simt::Bfloat16Format
#define CUFLASH_ONE16 0x3f80
#include "simt/class16.inc"
#include "simt/ops16.inc"

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

__host__ __device__ __forceinline__ __half::__half(const __nv_bfloat16 other)
    : __half(float(other)) {}
__host__ __device__ __forceinline__ __nv_bfloat16::__nv_bfloat16(const __half other)
    : __nv_bfloat16(float(other)) {}

// Bits
__host__ __device__ __forceinline__ unsigned short __bfloat16_as_ushort(const __nv_bfloat16 h) {
  return __nv_bfloat16_raw(h).x;
}
__host__ __device__ __forceinline__ short __bfloat16_as_short(const __nv_bfloat16 h) {
  return static_cast<short>(__nv_bfloat16_raw(h).x);
}
__host__ __device__ __forceinline__ __nv_bfloat16 __ushort_as_bfloat16(const unsigned short bits) {
  return __nv_bfloat16_raw{bits};
}
__host__ __device__ __forceinline__ __nv_bfloat16 __short_as_bfloat16(const short bits) {
  return __nv_bfloat16_raw{static_cast<unsigned short>(bits)};
}

// Conversions of one value
__host__ __device__ __forceinline__ float __bfloat162float(const __nv_bfloat16 h) {
  return float(h);
}
__host__ __device__ __forceinline__ __nv_bfloat16 __float2bfloat16(const float f) {
  return __nv_bfloat16(f);
}
__host__ __device__ __forceinline__ __nv_bfloat16 __double2bfloat16(const double d) {
  return __nv_bfloat16(d);
}

#define CUFLASH_BF16_ROUND(suffix, mode)                                                       \
  __host__ __device__ __forceinline__ __nv_bfloat16 __float2bfloat16_##suffix(const float f) { \
    using namespace cuflash::simt;                                                             \
    return __ushort_as_bfloat16(encode16<Bfloat16Format, Round::mode>(f));                     \
  }                                                                                            \
  CUFLASH_BF16_INTEGER(short, short, suffix, mode)                                             \
  CUFLASH_BF16_INTEGER(ushort, unsigned short, suffix, mode)                                   \
  CUFLASH_BF16_INTEGER(int, int, suffix, mode)                                                 \
  CUFLASH_BF16_INTEGER(uint, unsigned int, suffix, mode)                                       \
  CUFLASH_BF16_INTEGER(ll, long long, suffix, mode)                                            \
  CUFLASH_BF16_INTEGER(ull, unsigned long long, suffix, mode)
#define CUFLASH_BF16_INTEGER(name, type, suffix, mode)                                           \
  __host__ __device__ __forceinline__ __nv_bfloat16 __##name##2bfloat16_##suffix(const type i) { \
    using namespace cuflash::simt;                                                               \
    return __ushort_as_bfloat16(encode16_integer<Bfloat16Format, Round::mode>(i));               \
  }                                                                                              \
  __host__ __device__ __forceinline__ type __bfloat162##name##_##suffix(const __nv_bfloat16 h) { \
    return cuflash::simt::to_integer<type, cuflash::simt::Round::mode>(h);                       \
  }
CUFLASH_BF16_ROUND(rn, kNearestEven)
CUFLASH_BF16_ROUND(rz, kTowardZero)
CUFLASH_BF16_ROUND(rd, kDown)
CUFLASH_BF16_ROUND(ru, kUp)
#undef CUFLASH_BF16_INTEGER
#undef CUFLASH_BF16_ROUND

__host__ __device__ __forceinline__ signed char __bfloat162char_rz(const __nv_bfloat16 h) {
  return h;
}
__host__ __device__ __forceinline__ unsigned char __bfloat162uchar_rz(const __nv_bfloat16 h) {
  return h;
}

// Pairs: the first argument, `x` and "low" are the same element.
__host__ __device__ __forceinline__ __nv_bfloat16 __low2bfloat16(const __nv_bfloat162 a) {
  return cuflash::simt::low16(a);
}
__host__ __device__ __forceinline__ __nv_bfloat16 __high2bfloat16(const __nv_bfloat162 a) {
  return cuflash::simt::high16(a);
}
__host__ __device__ __forceinline__ __nv_bfloat162 __halves2bfloat162(const __nv_bfloat16 a,
                                                                      const __nv_bfloat16 b) {
  return cuflash::simt::pack16(a, b);
}
__host__ __device__ __forceinline__ __nv_bfloat162 make_bfloat162(const __nv_bfloat16 x,
                                                                  const __nv_bfloat16 y) {
  return cuflash::simt::pack16(x, y);
}
__host__ __device__ __forceinline__ __nv_bfloat162 __bfloat162bfloat162(const __nv_bfloat16 a) {
  return cuflash::simt::pack16(a, a);
}
__host__ __device__ __forceinline__ __nv_bfloat162 __low2bfloat162(const __nv_bfloat162 a) {
  return __bfloat162bfloat162(__low2bfloat16(a));
}
__host__ __device__ __forceinline__ __nv_bfloat162 __high2bfloat162(const __nv_bfloat162 a) {
  return __bfloat162bfloat162(__high2bfloat16(a));
}
__host__ __device__ __forceinline__ __nv_bfloat162 __lows2bfloat162(const __nv_bfloat162 a,
                                                                    const __nv_bfloat162 b) {
  return __halves2bfloat162(__low2bfloat16(a), __low2bfloat16(b));
}
__host__ __device__ __forceinline__ __nv_bfloat162 __highs2bfloat162(const __nv_bfloat162 a,
                                                                     const __nv_bfloat162 b) {
  return __halves2bfloat162(__high2bfloat16(a), __high2bfloat16(b));
}
__host__ __device__ __forceinline__ __nv_bfloat162 __floats2bfloat162_rn(const float a,
                                                                         const float b) {
  return __halves2bfloat162(__nv_bfloat16(a), __nv_bfloat16(b));
}
__host__ __device__ __forceinline__ __nv_bfloat162 __float2bfloat162_rn(const float a) {
  return __bfloat162bfloat162(__nv_bfloat16(a));
}

// Templates only because float2 is not complete here.
template <class Float2 = float2>
__host__ __device__ __forceinline__ __nv_bfloat162 __float22bfloat162_rn(const Float2& a) {
  return __floats2bfloat162_rn(a.x, a.y);
}
template <class Float2 = float2>
__host__ __device__ __forceinline__ Float2 __bfloat1622float2(const __nv_bfloat162 a) {
  return Float2{__low2float(a), __high2float(a)};
}

#define CUDART_ZERO_BF16 __ushort_as_bfloat16(0x0000)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16(0x8000)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16(0x0001)
#define CUDART_ONE_BF16 __ushort_as_bfloat16(0x3f80)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(0x7f7f)
#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fff)

#endif  // CUFLASH_SIMT_CUDA_BF16_H_
