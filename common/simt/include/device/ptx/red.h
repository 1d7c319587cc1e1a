// The CPU simulator's red: one access of 16 bytes per lane, as on compute capability 9.0.
#ifndef CUFLASH_SIMT_DEVICE_PTX_RED_H_
#define CUFLASH_SIMT_DEVICE_PTX_RED_H_

#include <cuda_runtime.h>

namespace cuflash::simt {

// Adds to four floats in memory. Each addition is atomic.
void add_four(float* address, const float (&x)[4]);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void red_add(float* accumulator, int lane, const float (&x)[4]) {
  simt::add_four(accumulator + 4 * lane, x);
}

__forceinline__ void add_from(const float* accumulator, int lane, float (&x)[4]) {
  const float4 y = *reinterpret_cast<const float4*>(accumulator + 4 * lane);
  x[0] += y.x, x[1] += y.y, x[2] += y.z, x[3] += y.w;
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_RED_H_
