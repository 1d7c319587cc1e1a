// Error messages: one sentence per kind of error, and the sentence of this thread's last call.
#include <utility>

#include "api/last_error.h"

namespace cuflash {
namespace {

thread_local std::string last_error;

}  // namespace

FlashAttentionError refuse(FlashAttentionError error, std::string sentence) {
  last_error = std::move(sentence);
  return error;
}

FlashAttentionError succeed() {
  last_error.clear();
  return FlashAttentionError::SUCCESS;
}

}  // namespace cuflash

// The wording of cuflash_error's documentation. There is no default case, so that the compiler
// reports an enumerator without a sentence.
const char* cuflash_error_string(int error) {
  switch (cuflash_error{error}) {
    case CUFLASH_SUCCESS:
      return "success";
    case CUFLASH_INVALID_DIMENSION:
      return "a size is below 1, window_left or window_right is below -1, split_keys or num_splits "
             "is below 0 or both are set, split_keys is not a multiple of 64, the sizes of pages "
             "are "
             "invalid, a stride is "
             "negative, an output overlaps itself, or a struct's own size is invalid";
    case CUFLASH_DIMENSION_MISMATCH:
      return "heads_q is not a multiple of heads_kv";
    case CUFLASH_NULL_POINTER:
      return "a struct is null, or a required tensor has no data";
    case CUFLASH_CUDA_ERROR:
      return "the CUDA runtime reported an error";
    case CUFLASH_OUT_OF_MEMORY:
      return "the caller's workspace is too small, or the library could not allocate one";
    case CUFLASH_UNSUPPORTED_HEAD_DIM:
      return "head_dim is not 32, 64, 96, 128 or 256";
    case CUFLASH_UNSUPPORTED_DTYPE:
      return "the dtype is not one of cuflash_dtype";
    case CUFLASH_INVALID_SCALE:
      return "softmax_scale is not finite or not positive";
    case CUFLASH_MISALIGNED:
      return "a base address or a stride is not a multiple of 16 bytes, the workspace's address of "
             "256, or the address of LSE, seqused_k, k_begin, kv_batch or block_table of 4";
    case CUFLASH_SIZE_OVERFLOW:
      return "a tensor, the workspace or the grid is too large to address";
    case CUFLASH_UNSUPPORTED_DEVICE:
      return "the stage is not built for this device, or there is no device";
    case CUFLASH_UNSUPPORTED_BY_STAGE:
      return "the stage does not support the call's pass, dtype, head_dim or a feature that it "
             "needs";
    case CUFLASH_UNKNOWN_STAGE:
      return "no stage has this name";
  }
  return "unknown error";
}

const char* cuflash_last_error_message() { return cuflash::last_error.c_str(); }
