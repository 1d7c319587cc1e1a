// The element types of tensor-core kernels.
#ifndef CUFLASH_DEVICE_TENSOR_CORES_H_
#define CUFLASH_DEVICE_TENSOR_CORES_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace cuflash {

// The element type for which a tensor-core kernel is compiled: T itself, except that f16 replaces
// bf16 for compute capability 7.5, where mma.h declares no bf16. That code is never launched: the
// stage's facts require 8.0 for bf16.
template <class T>
struct TensorCoreType {
  using Type = T;
};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <>
struct TensorCoreType<__nv_bfloat16> {
  using Type = __half;
};
#endif

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TENSOR_CORES_H_
