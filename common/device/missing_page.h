// Notes that a key lies in a page that does not exist.
#ifndef CUFLASH_DEVICE_MISSING_PAGE_H_
#define CUFLASH_DEVICE_MISSING_PAGE_H_

#include <cuda_runtime.h>

namespace cuflash {

// On a GPU it does nothing; the CPU simulator's version of this header makes a finding.
__device__ __forceinline__ void note_missing_page(int /*key*/, int /*page*/) {}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_MISSING_PAGE_H_
