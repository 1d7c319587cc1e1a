// The CPU simulator's mma.sync, with the hardware's fragment layout (device/mma_fragments.h) and
// the arithmetic of simt/mma.cpp.
#ifndef CUFLASH_SIMT_DEVICE_PTX_MMA_H_
#define CUFLASH_SIMT_DEVICE_PTX_MMA_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace cuflash::simt {

// Waits for all 32 lanes. It does not order their accesses to memory.
void multiply_fragments(float* d, const std::uint32_t* a, const std::uint32_t* b, bool bfloat16);

}  // namespace cuflash::simt

namespace cuflash::ptx {

template <class T>
__forceinline__ void mma_m16n8k16(float (&rD)[4], const std::uint32_t (&rA)[4],
                                  const std::uint32_t (&rB)[2]) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>,
                "the operands of m16n8k16 are f16 or bf16");
  simt::multiply_fragments(rD, rA, rB, std::is_same_v<T, __nv_bfloat16>);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_MMA_H_
