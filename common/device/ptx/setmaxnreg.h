// PTX setmaxnreg: a warpgroup gives registers back to the block, or takes such. Compute capability
// 9.0, code for sm_90a.
//
// kRegisters, a thread: a multiple of 8 from 24 to 256. All 128 threads of the warpgroup call it.
#ifndef CUFLASH_DEVICE_PTX_SETMAXNREG_H_
#define CUFLASH_DEVICE_PTX_SETMAXNREG_H_

#include <cuda_runtime.h>

#include "device/instruments/points.h"

namespace cuflash::ptx {

// Waits until the block has that many to give.
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc(instruments::Line line = {}) {
  const instruments::Span span(instruments::Kind::kRegisters, line, kRegisters);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec(instruments::Line line = {}) {
  const instruments::Span span(instruments::Kind::kRegisters, line, kRegisters);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kRegisters));
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_SETMAXNREG_H_
