// The CPU simulator's unpack: no instruction order must be kept.
#ifndef CUFLASH_SIMT_DEVICE_PTX_UNPACK_H_
#define CUFLASH_SIMT_DEVICE_PTX_UNPACK_H_

#include "device/mma_fragments.h"

namespace cuflash::ptx {

template <class T>
__forceinline__ float2 unpack(std::uint32_t bits) {
  return cuflash::unpack<T>(bits);
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_UNPACK_H_
