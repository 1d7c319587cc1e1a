// Errors as English: one sentence for each kind, and the sentence of this thread's last call.
#include <utility>

#include "api/last_error.h"

namespace cuflash {
namespace {

thread_local std::string last_error;

}  // namespace

const char* get_error_string(FlashAttentionError error) {
  switch (error) {
    case FlashAttentionError::SUCCESS:
      return "success";
    case FlashAttentionError::INVALID_DIMENSION:
      return "a size is below 1, a stride is negative, or an output overlaps itself";
    case FlashAttentionError::DIMENSION_MISMATCH:
      return "heads_q is not a multiple of heads_kv";
    case FlashAttentionError::NULL_POINTER:
      return "a required tensor has no data";
    case FlashAttentionError::CUDA_ERROR:
      return "the CUDA runtime reported an error";
    case FlashAttentionError::OUT_OF_MEMORY:
      return "the workspace could not be allocated";
    case FlashAttentionError::UNSUPPORTED_HEAD_DIM:
      return "head_dim is not 32, 64 or 128";
    case FlashAttentionError::UNSUPPORTED_DTYPE:
      return "the dtype is not f32, f16 or bf16";
    case FlashAttentionError::INVALID_SCALE:
      return "softmax_scale is not finite or not positive";
    case FlashAttentionError::MISALIGNED:
      return "a base address or a stride is not aligned";
    case FlashAttentionError::SIZE_OVERFLOW:
      return "a tensor, the workspace or the grid is too large to address";
    case FlashAttentionError::UNSUPPORTED_DEVICE:
      return "the stage is not built for this device, or there is no device";
    case FlashAttentionError::UNSUPPORTED_BY_STAGE:
      return "the stage lacks this pass, dtype or head_dim";
    case FlashAttentionError::UNKNOWN_STAGE:
      return "no stage has this name";
  }
  return "unknown error";
}

const char* last_error_message() { return last_error.c_str(); }

FlashAttentionError refuse(FlashAttentionError error, std::string sentence) {
  last_error = std::move(sentence);
  return error;
}

FlashAttentionError succeed() {
  last_error.clear();
  return FlashAttentionError::SUCCESS;
}

}  // namespace cuflash
