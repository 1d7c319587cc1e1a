// PTX ldmatrix: a warp loads four matrices of 8 × 8 elements of 16 bits from shared memory into the
// registers where mma.sync expects them. Compute capability 7.5.
#ifndef CUFLASH_DEVICE_PTX_LDMATRIX_H_
#define CUFLASH_DEVICE_PTX_LDMATRIX_H_

#include <cstdint>

#include "device/ptx/shared_address.h"

namespace cuflash::ptx {

// Lane l passes the address of row l % 8 of matrix l / 8: 16 bytes in shared memory, at a multiple
// of 16. Register m of lane l receives elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix
// m. All 32 lanes must call it together.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row.value)
               : "memory");
}

// Like ldmatrix_x4(), but each matrix is transposed: elements 2 (l % 4) and 2 (l % 4) + 1 of column
// l / 4.
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row.value)
               : "memory");
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_LDMATRIX_H_
