// The CPU simulator's __half and __half2, instead of CUDA's cuda_fp16.h: the same names, and
// the same results to the bit (tests/simt/half_test.cpp compares them with CUDA's headers).
// Warp shuffles, __ldg and atomicAdd of these types belong to the simulator's cuda_runtime.h.
#ifndef CUFLASH_SIMT_CUDA_FP16_H_
#define CUFLASH_SIMT_CUDA_FP16_H_

#include "host_defines.h"
#include "simt/round16.h"

struct float2;  // complete once cuda_runtime.h is included
struct __nv_bfloat16;

struct alignas(2) __half_raw {
  unsigned short x;
};
struct alignas(4) __half2_raw {
  unsigned short x, y;
};

#define CUFLASH_T16 __half
#define CUFLASH_T16X2 __half2
#define CUFLASH_RAW16 __half_raw
#define CUFLASH_RAW16X2 __half2_raw
#define CUFLASH_OTHER16 __nv_bfloat16
#define CUFLASH_FORMAT16 cuflash::simt::HalfFormat
#define CUFLASH_ONE16 0x3c00
#include "simt/class16.inc"
#include "simt/ops16.inc"

using half = __half;
using half2 = __half2;
using nv_half = __half;
using nv_half2 = __half2;

// Bits
__host__ __device__ __forceinline__ unsigned short __half_as_ushort(const __half h) {
  return __half_raw(h).x;
}
__host__ __device__ __forceinline__ short __half_as_short(const __half h) {
  return static_cast<short>(__half_raw(h).x);
}
__host__ __device__ __forceinline__ __half __ushort_as_half(const unsigned short bits) {
  return __half_raw{bits};
}
__host__ __device__ __forceinline__ __half __short_as_half(const short bits) {
  return __half_raw{static_cast<unsigned short>(bits)};
}

// Conversions of one value
__host__ __device__ __forceinline__ float __half2float(const __half h) { return float(h); }
__host__ __device__ __forceinline__ __half __float2half(const float f) { return __half(f); }
__host__ __device__ __forceinline__ __half __double2half(const double d) { return __half(d); }

#define CUFLASH_HALF_ROUND(suffix, mode)                                            \
  __host__ __device__ __forceinline__ __half __float2half_##suffix(const float f) { \
    using namespace cuflash::simt;                                                  \
    return __ushort_as_half(encode16<HalfFormat, Round::mode>(f));                  \
  }                                                                                 \
  CUFLASH_HALF_INTEGER(short, short, suffix, mode)                                  \
  CUFLASH_HALF_INTEGER(ushort, unsigned short, suffix, mode)                        \
  CUFLASH_HALF_INTEGER(int, int, suffix, mode)                                      \
  CUFLASH_HALF_INTEGER(uint, unsigned int, suffix, mode)                            \
  CUFLASH_HALF_INTEGER(ll, long long, suffix, mode)                                 \
  CUFLASH_HALF_INTEGER(ull, unsigned long long, suffix, mode)
#define CUFLASH_HALF_INTEGER(name, type, suffix, mode)                                \
  __host__ __device__ __forceinline__ __half __##name##2half_##suffix(const type i) { \
    using namespace cuflash::simt;                                                    \
    return __ushort_as_half(encode16_integer<HalfFormat, Round::mode>(i));            \
  }                                                                                   \
  __host__ __device__ __forceinline__ type __half2##name##_##suffix(const __half h) { \
    return cuflash::simt::to_integer<type, cuflash::simt::Round::mode>(h);            \
  }
CUFLASH_HALF_ROUND(rn, kNearestEven)
CUFLASH_HALF_ROUND(rz, kTowardZero)
CUFLASH_HALF_ROUND(rd, kDown)
CUFLASH_HALF_ROUND(ru, kUp)
#undef CUFLASH_HALF_INTEGER
#undef CUFLASH_HALF_ROUND

__host__ __device__ __forceinline__ signed char __half2char_rz(const __half h) { return h; }
__host__ __device__ __forceinline__ unsigned char __half2uchar_rz(const __half h) { return h; }

// Pairs: the first argument, `x` and "low" are the same element.
__host__ __device__ __forceinline__ __half __low2half(const __half2 a) {
  return cuflash::simt::low16(a);
}
__host__ __device__ __forceinline__ __half __high2half(const __half2 a) {
  return cuflash::simt::high16(a);
}
__host__ __device__ __forceinline__ __half2 __halves2half2(const __half a, const __half b) {
  return cuflash::simt::pack16(a, b);
}
__host__ __device__ __forceinline__ __half2 make_half2(const __half x, const __half y) {
  return cuflash::simt::pack16(x, y);
}
__host__ __device__ __forceinline__ __half2 __half2half2(const __half a) {
  return cuflash::simt::pack16(a, a);
}
__host__ __device__ __forceinline__ __half2 __low2half2(const __half2 a) {
  return __half2half2(__low2half(a));
}
__host__ __device__ __forceinline__ __half2 __high2half2(const __half2 a) {
  return __half2half2(__high2half(a));
}
__host__ __device__ __forceinline__ __half2 __lows2half2(const __half2 a, const __half2 b) {
  return __halves2half2(__low2half(a), __low2half(b));
}
__host__ __device__ __forceinline__ __half2 __highs2half2(const __half2 a, const __half2 b) {
  return __halves2half2(__high2half(a), __high2half(b));
}
__host__ __device__ __forceinline__ __half2 __floats2half2_rn(const float a, const float b) {
  return __halves2half2(__half(a), __half(b));
}
__host__ __device__ __forceinline__ __half2 __float2half2_rn(const float a) {
  return __half2half2(__half(a));
}

// Templates only because float2 is not complete here.
template <class Float2 = float2>
__host__ __device__ __forceinline__ __half2 __float22half2_rn(const Float2& a) {
  return __floats2half2_rn(a.x, a.y);
}
template <class Float2 = float2>
__host__ __device__ __forceinline__ Float2 __half22float2(const __half2 a) {
  return Float2{__low2float(a), __high2float(a)};
}

#define CUDART_ZERO_FP16 __ushort_as_half(0x0000)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half(0x8000)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(0x0001)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bff)
#define CUDART_INF_FP16 __ushort_as_half(0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fff)

#endif  // CUFLASH_SIMT_CUDA_FP16_H_
