// The CPU simulator's setmaxnreg: the warpgroup waits until the block has that many registers.
#ifndef CUFLASH_SIMT_DEVICE_PTX_SETMAXNREG_H_
#define CUFLASH_SIMT_DEVICE_PTX_SETMAXNREG_H_

#include <cuda_runtime.h>

namespace cuflash::simt {

// `registers` is the number per thread of the warpgroup.
void set_max_registers(int registers);

}  // namespace cuflash::simt

namespace cuflash::ptx {

template <int kRegisters>
__forceinline__ void setmaxnreg_inc() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0,
                "setmaxnreg takes a multiple of 8 from 24 to 256");
  simt::set_max_registers(kRegisters);
}

template <int kRegisters>
__forceinline__ void setmaxnreg_dec() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0,
                "setmaxnreg takes a multiple of 8 from 24 to 256");
  simt::set_max_registers(kRegisters);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_SETMAXNREG_H_
