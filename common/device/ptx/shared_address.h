// A shared-memory address as PTX instructions take it: 32 bits, relative to the start of the
// block's shared memory.
#ifndef CUFLASH_DEVICE_PTX_SHARED_ADDRESS_H_
#define CUFLASH_DEVICE_PTX_SHARED_ADDRESS_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace cuflash::ptx {

// The address of an object in shared memory; an addend counts bytes.
struct SharedAddress {
  std::uint32_t value;

  __device__ __forceinline__ SharedAddress(const void* shared)
      : value(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {}
  __device__ __forceinline__ SharedAddress& operator+=(int bytes) {
    value += static_cast<std::uint32_t>(bytes);
    return *this;
  }
};

__device__ __forceinline__ SharedAddress operator+(SharedAddress address, int bytes) {
  return address += bytes;
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_SHARED_ADDRESS_H_
