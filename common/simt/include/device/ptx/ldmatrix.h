// The CPU simulator's ldmatrix.
#ifndef CUFLASH_SIMT_DEVICE_PTX_LDMATRIX_H_
#define CUFLASH_SIMT_DEVICE_PTX_LDMATRIX_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "device/ptx/shared_address.h"

namespace cuflash::simt {

// Waits for all 32 lanes. It does not order their accesses to memory.
void load_matrices(std::uint32_t* registers, const void* row, bool trans);

}  // namespace cuflash::simt

namespace cuflash::ptx {

__forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], SharedAddress row) {
  simt::load_matrices(r, row.value, false);
}
__forceinline__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], SharedAddress row) {
  simt::load_matrices(r, row.value, true);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_LDMATRIX_H_
