// Compiler hints for register allocation: recompute a value instead of holding it, or hold it in
// the registers that a warp shares.
#ifndef CUFLASH_DEVICE_REGISTERS_H_
#define CUFLASH_DEVICE_REGISTERS_H_

#include <cuda_runtime.h>

#include <type_traits>

#include "device/index.h"
#include "device/mask.h"

namespace cuflash {

// Returns x through an empty asm statement, so the compiler cannot hoist expressions that use it
// out of a loop and hold them in registers: each iteration computes them anew.
template <class T>
__device__ __forceinline__ T opaque(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return __uint_as_float(opaque(__float_as_uint(x)));
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(x));
  } else {
    asm volatile("" : "+r"(x));
  }
  return x;
}

// Returns x as a warp-uniform value. All 32 lanes must call it with the same x. The compiler then
// keeps x, and values computed from it, in the warp's uniform registers. Requires compute
// capability 8.0; below, the intrinsic is not declared.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__device__ __forceinline__ int uniform(int x) {
  return static_cast<int>(__reduce_or_sync(0xffffffffu, static_cast<unsigned>(x)));
}
__device__ __forceinline__ Place uniform(const Place& x) {
  return {uniform(x.batch), uniform(x.head), uniform(x.row), uniform(x.column)};
}
__device__ __forceinline__ Range uniform(const Range& x) {
  return {uniform(x.begin), uniform(x.end)};
}
#endif

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_REGISTERS_H_
