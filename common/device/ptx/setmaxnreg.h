// PTX setmaxnreg: a warpgroup releases registers to the block's pool, or takes registers from it.
// Compute capability 9.0, code for sm_90a.
//
// kRegisters is the new number per thread: a multiple of 8 from 24 to 256. All 128 threads of the
// warpgroup must call it.
#ifndef CUFLASH_DEVICE_PTX_SETMAXNREG_H_
#define CUFLASH_DEVICE_PTX_SETMAXNREG_H_

#include <cuda_runtime.h>

#include "device/instruments/points.h"

namespace cuflash::ptx {

// Waits until the pool has enough registers.
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc(instruments::Line line = {}) {
  const instruments::Span span(instruments::Kind::kRegisters, line, kRegisters);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kRegisters));
}

// Releases registers at once.
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec(instruments::Line line = {}) {
  const instruments::Span span(instruments::Kind::kRegisters, line, kRegisters);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kRegisters));
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_SETMAXNREG_H_
