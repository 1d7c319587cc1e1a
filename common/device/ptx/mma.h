// PTX mma.sync: a warp's matrix product with its operands in registers. Compute capability 8.0.
#ifndef CUFLASH_DEVICE_PTX_MMA_H_
#define CUFLASH_DEVICE_PTX_MMA_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace cuflash::ptx {

// D += A · B, 16 × 8 += 16 × 16 · 16 × 8. Each register of A and B holds two neighbouring elements
// of T; D is in f32. device/mma_fragments.h says which lane holds which element. All 32 lanes must
// call it together.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&rD)[4], const std::uint32_t (&rA)[4],
                                             const std::uint32_t (&rB)[2]) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>,
                "the operands of m16n8k16 are f16 or bf16");
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(rD[0]), "+f"(rD[1]), "+f"(rD[2]), "+f"(rD[3])
        : "r"(rA[0]), "r"(rA[1]), "r"(rA[2]), "r"(rA[3]), "r"(rB[0]), "r"(rB[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(rD[0]), "+f"(rD[1]), "+f"(rD[2]), "+f"(rD[3])
        : "r"(rA[0]), "r"(rA[1]), "r"(rA[2]), "r"(rA[3]), "r"(rB[0]), "r"(rB[1]));
  }
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_MMA_H_
