// The CPU simulator's ex2.approx.ftz.f32: exact, where the GPU's relative error is up to 2^-22.
#ifndef CUFLASH_SIMT_DEVICE_PTX_EXP2_H_
#define CUFLASH_SIMT_DEVICE_PTX_EXP2_H_

#include <cmath>
#include <limits>

namespace cuflash::ptx {

inline float exp2(float x) {
  const float y = std::exp2(x);
  return y < std::numeric_limits<float>::min() ? 0.f : y;
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_EXP2_H_
