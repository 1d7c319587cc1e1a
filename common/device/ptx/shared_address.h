// The address of shared memory as PTX instructions take it: 32 bits, from the start of the block's
// shared memory.
#ifndef CUFLASH_DEVICE_PTX_SHARED_ADDRESS_H_
#define CUFLASH_DEVICE_PTX_SHARED_ADDRESS_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace cuflash::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_SHARED_ADDRESS_H_
