// CUDA's own 16-bit types as the oracle of half_test.cpp. Compile this file with the CUDA
// toolkit's include directory if there is one, and never with the simulator's.

#if __has_include(<cuda_fp16.h>) && __has_include(<cuda_bf16.h>)

// CUDA's classes under other names: their inline members have linker symbols, which must not meet
// the simulator's classes of the same name in one program.
#define __half cuda_half
#define __half2 cuda_half2
#define __nv_bfloat16 cuda_bfloat16
#define __nv_bfloat162 cuda_bfloat162
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifdef CUFLASH_SIMT_CUDA_FP16_H_
#error "The oracle must see CUDA's headers: keep common/simt/include off its include path."
#endif

#include "half_ops.h"

const Operation* oracle_operations(std::size_t* count) {
  static const std::vector<Operation> table = operations();
  *count = table.size();
  return table.data();
}

#else

#include <cstddef>

struct Operation;
const Operation* oracle_operations(std::size_t* count) {
  *count = 0;
  return nullptr;
}

#endif
