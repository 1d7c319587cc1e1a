/// @file error.h
/// The errors of the API in C++.
#ifndef CUFLASH_ERROR_H_
#define CUFLASH_ERROR_H_

#include "cuflash/c_api.h"

namespace cuflash {

/// What a call returns. Each value is the @ref cuflash_error of the same name, whose documentation
/// gives its meaning and the order of the checks. Within one kind of error, tensors are checked in
/// the order of Forward and Backward.
enum class FlashAttentionError : int {
  SUCCESS = CUFLASH_SUCCESS,                            ///< CUFLASH_SUCCESS
  INVALID_DIMENSION = CUFLASH_INVALID_DIMENSION,        ///< CUFLASH_INVALID_DIMENSION
  DIMENSION_MISMATCH = CUFLASH_DIMENSION_MISMATCH,      ///< CUFLASH_DIMENSION_MISMATCH
  NULL_POINTER = CUFLASH_NULL_POINTER,                  ///< CUFLASH_NULL_POINTER
  CUDA_ERROR = CUFLASH_CUDA_ERROR,                      ///< CUFLASH_CUDA_ERROR
  OUT_OF_MEMORY = CUFLASH_OUT_OF_MEMORY,                ///< CUFLASH_OUT_OF_MEMORY
  UNSUPPORTED_HEAD_DIM = CUFLASH_UNSUPPORTED_HEAD_DIM,  ///< CUFLASH_UNSUPPORTED_HEAD_DIM
  UNSUPPORTED_DTYPE = CUFLASH_UNSUPPORTED_DTYPE,        ///< CUFLASH_UNSUPPORTED_DTYPE
  INVALID_SCALE = CUFLASH_INVALID_SCALE,                ///< CUFLASH_INVALID_SCALE
  MISALIGNED = CUFLASH_MISALIGNED,                      ///< CUFLASH_MISALIGNED
  SIZE_OVERFLOW = CUFLASH_SIZE_OVERFLOW,                ///< CUFLASH_SIZE_OVERFLOW
  UNSUPPORTED_DEVICE = CUFLASH_UNSUPPORTED_DEVICE,      ///< CUFLASH_UNSUPPORTED_DEVICE
  UNSUPPORTED_BY_STAGE = CUFLASH_UNSUPPORTED_BY_STAGE,  ///< CUFLASH_UNSUPPORTED_BY_STAGE
  UNKNOWN_STAGE = CUFLASH_UNKNOWN_STAGE,                ///< CUFLASH_UNKNOWN_STAGE
};

/// cuflash_error_string() of an error.
/// @code{.cpp}
/// std::puts(cuflash::get_error_string(cuflash::FlashAttentionError::MISALIGNED));
/// @endcode
inline const char* get_error_string(FlashAttentionError error) noexcept {
  return cuflash_error_string(static_cast<int>(error));
}

}  // namespace cuflash

#endif  // CUFLASH_ERROR_H_
