// PTX ex2.approx: 2 to the power of x, one instruction of the special function unit.
#ifndef CUFLASH_DEVICE_PTX_EXP2_H_
#define CUFLASH_DEVICE_PTX_EXP2_H_

#include <cuda_runtime.h>

namespace cuflash::ptx {

// Within 2^-22 of 2^x, relatively; 0 for −inf, and where the result would be subnormal (PTX ISA,
// "ex2").
__device__ __forceinline__ float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_EXP2_H_
