// PTX ex2.approx: 2 to the power of x, one instruction of the special function unit.
#ifndef CUFLASH_DEVICE_PTX_EXP2_H_
#define CUFLASH_DEVICE_PTX_EXP2_H_

#include <cuda_runtime.h>

namespace cuflash::ptx {

// The relative error is at most 2^-22; the result is 0 for −inf, and where it would be subnormal
// (PTX ISA, "ex2").
__device__ __forceinline__ float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_EXP2_H_
