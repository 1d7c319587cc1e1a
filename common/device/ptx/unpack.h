// PTX cvt and shifts that convert a pair of f16 or bf16 numbers to floats. They are volatile, so
// that the compiler does not move them above a wait, where the results would occupy registers
// earlier.
#ifndef CUFLASH_DEVICE_PTX_UNPACK_H_
#define CUFLASH_DEVICE_PTX_UNPACK_H_

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace cuflash::ptx {

// Converts the two numbers of type T in a register, the first in its lower half.
template <class T>
__device__ __forceinline__ float2 unpack(std::uint32_t bits) {
  float2 x;
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "{ .reg .f16 lower, upper;\n"
        "mov.b32 {lower, upper}, %2;\n"
        "cvt.f32.f16 %0, lower;\n"
        "cvt.f32.f16 %1, upper; }"
        : "=f"(x.x), "=f"(x.y)
        : "r"(bits));
  } else {
    // A bf16 number is the upper half of the float.
    asm volatile(
        "{ .reg .b32 lower, upper;\n"
        "shl.b32 lower, %2, 16;\n"
        "and.b32 upper, %2, 0xffff0000;\n"
        "mov.b32 %0, lower;\n"
        "mov.b32 %1, upper; }"
        : "=f"(x.x), "=f"(x.y)
        : "r"(bits));
  }
  return x;
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_UNPACK_H_
