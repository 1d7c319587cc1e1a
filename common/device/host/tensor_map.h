// The tensor map of an asynchronous copy (TMA), made on the host for a kernel's parameter:
//
//     __global__ void kernel(const __grid_constant__ TensorMap map)
#ifndef CUFLASH_DEVICE_HOST_TENSOR_MAP_H_
#define CUFLASH_DEVICE_HOST_TENSOR_MAP_H_

#include <cuda.h>
#include <cuda_runtime.h>

#include <string>

#include "device/host/tensor_map_arguments.h"

namespace cuflash {

using TensorMap = CUtensorMap;

// Makes the map. Returns an empty string, or the reason for a failure in a sentence with all
// arguments. The driver's function is looked up at run time, so nothing links libcuda.
inline std::string make_tensor_map(TensorMap& map, const TensorMapArguments& arguments) {
  const std::string fault = tensor_map_fault(arguments);
  if (!fault.empty()) return fault;

  static const auto encode = [] {
    constexpr unsigned kIntroducedIn = 12000;  // CUDA 12.0
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t error = cudaGetDriverEntryPointByVersion(
        "cuTensorMapEncodeTiled", &function, kIntroducedIn, cudaEnableDefault, &found);
    const bool is_found = error == cudaSuccess && found == cudaDriverEntryPointSuccess;
    return is_found ? reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function) : nullptr;
  }();
  if (encode == nullptr) return "The driver has no cuTensorMapEncodeTiled: it is older than 12.0.";

  constexpr int kRank = TensorMapArguments::kRank;
  cuuint64_t extents[kRank], strides[kRank - 1];
  cuuint32_t box[kRank], steps[kRank];
  for (int i = 0; i < kRank; ++i) {
    extents[i] = static_cast<cuuint64_t>(arguments.extents[i]);
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(arguments.stride(i));
    box[i] = static_cast<cuuint32_t>(arguments.box[i]);
    steps[i] = 1;
  }
  const CUtensorMapDataType type = arguments.dtype == CUFLASH_F16
                                       ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                       : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUtensorMapSwizzle swizzle =
      arguments.swizzle == TensorSwizzle::kNone      ? CU_TENSOR_MAP_SWIZZLE_NONE
      : arguments.swizzle == TensorSwizzle::k64Bytes ? CU_TENSOR_MAP_SWIZZLE_64B
                                                     : CU_TENSOR_MAP_SWIZZLE_128B;
  const auto encoded = [&] {
    return encode(&map, type, kRank, const_cast<void*>(arguments.data), extents, strides, box,
                  steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult result = encoded();
  if (result == CUDA_ERROR_INVALID_CONTEXT) {  // This thread has no CUDA context yet.
    int device = 0;
    const bool is_set =
        cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(device) == cudaSuccess;
    if (is_set) result = encoded();
  }
  if (result == CUDA_SUCCESS) return {};
  return "cuTensorMapEncodeTiled returned error " + std::to_string(result) +
         ". The arguments: " + in_words(arguments) + '.';
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_HOST_TENSOR_MAP_H_
