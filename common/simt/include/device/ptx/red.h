// The CPU simulator's red: four atomic additions, in the order of compute capability 9.0.
#ifndef CUFLASH_SIMT_DEVICE_PTX_RED_H_
#define CUFLASH_SIMT_DEVICE_PTX_RED_H_

#include <cuda_runtime.h>

namespace cuflash::ptx {

__forceinline__ void red_add(float* accumulator, int lane, const float (&x)[4]) {
  for (int e = 0; e < 4; ++e) atomicAdd(accumulator + 4 * lane + e, x[e]);
}

__forceinline__ void add_from(const float* accumulator, int lane, float (&x)[4]) {
  const float4 y = *reinterpret_cast<const float4*>(accumulator + 4 * lane);
  x[0] += y.x, x[1] += y.y, x[2] += y.z, x[3] += y.w;
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_RED_H_
