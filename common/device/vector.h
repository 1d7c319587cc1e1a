// Loads and stores four neighbouring elements as floats in one access: 16 bytes in f32, 8 bytes in
// f16 and bf16. The address must be a multiple of that size; the API requires every row to be
// aligned to 16 bytes.
#ifndef CUFLASH_DEVICE_VECTOR_H_
#define CUFLASH_DEVICE_VECTOR_H_

#include <cuda_runtime.h>

#include <cstring>
#include <type_traits>

namespace cuflash {

template <class T>
using Bits4 = std::conditional_t<sizeof(T) == 4, float4, uint2>;

template <class T>
__device__ __forceinline__ float4 load4(const T* from) {
  const Bits4<T> bits = *reinterpret_cast<const Bits4<T>*>(from);
  T x[4];
  memcpy(static_cast<void*>(x), &bits, sizeof(bits));
  return {float(x[0]), float(x[1]), float(x[2]), float(x[3])};
}

template <class T>
__device__ __forceinline__ void store4(T* to, const float4& value) {
  const T x[4] = {T(value.x), T(value.y), T(value.z), T(value.w)};
  Bits4<T> bits;
  memcpy(&bits, x, sizeof(bits));
  *reinterpret_cast<Bits4<T>*>(to) = bits;
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_VECTOR_H_
