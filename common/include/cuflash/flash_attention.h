/// @file flash_attention.h
/// The public C++ API: attention forward and backward on device memory.
///
/// Every call checks its arguments on the host, in the order FlashAttentionError states, before
/// anything is launched: a refused call launches nothing and writes nothing. A call that is not
/// refused queues its work on `stream` and returns; it never synchronises the device. Calls are
/// safe from several threads at once.
#ifndef CUFLASH_FLASH_ATTENTION_H_
#define CUFLASH_FLASH_ATTENTION_H_

#include "cuflash/problem.h"
#include "cuflash/version.h"

// CUDA's own types, named but not included: a user of the CPU machine needs no CUDA headers.
struct CUstream_st;
/// CUDA's stream handle, as cuda_runtime.h declares it; null is the default stream.
typedef struct CUstream_st* cudaStream_t;
struct __half;
struct __nv_bfloat16;

namespace cuflash {

/// Why a call was refused or failed. Arguments are checked in this order, and the first failure is
/// returned: INVALID_DIMENSION, DIMENSION_MISMATCH, UNSUPPORTED_DTYPE, UNSUPPORTED_HEAD_DIM,
/// INVALID_SCALE, NULL_POINTER, MISALIGNED, SIZE_OVERFLOW, UNKNOWN_STAGE, UNSUPPORTED_DEVICE,
/// UNSUPPORTED_BY_STAGE. After them, while the work is queued: OUT_OF_MEMORY, CUDA_ERROR.
enum class FlashAttentionError : int {
  SUCCESS = 0,             ///< the work is queued on the stream
  INVALID_DIMENSION = 1,   ///< a size below 1, a negative stride, or an output that overlaps itself
  DIMENSION_MISMATCH = 2,  ///< heads_q is not a multiple of heads_kv
  NULL_POINTER = 3,        ///< a required tensor has no data
  CUDA_ERROR = 4,          ///< the CUDA runtime reported an error
  OUT_OF_MEMORY = 5,       ///< the workspace could not be allocated
  UNSUPPORTED_HEAD_DIM = 6,   ///< head_dim is not 32, 64 or 128
  UNSUPPORTED_DTYPE = 7,      ///< not f32, f16 or bf16
  INVALID_SCALE = 8,          ///< softmax_scale is not finite or not positive
  MISALIGNED = 9,             ///< a base or a stride is not a multiple of 16 bytes
  SIZE_OVERFLOW = 10,         ///< a tensor, the workspace or the grid is too large to address
  UNSUPPORTED_DEVICE = 11,    ///< the stage is not built for this device, or there is none
  UNSUPPORTED_BY_STAGE = 12,  ///< the stage lacks this pass, dtype or head_dim
  UNKNOWN_STAGE = 13,         ///< no stage has the name that was asked for
};

/// One English sentence for an error, the same for every call. Never null.
const char* get_error_string(FlashAttentionError error);

/// The sentence of this thread's last refused call, with the values that were at fault; empty when
/// the last call succeeded. Valid until this thread's next call.
const char* last_error_message();

/// O = softmax(scale · Q Kᵀ) V for contiguous [batch_size, num_heads, seq_len, head_dim] tensors.
/// @param Q,K,V  in, device memory, 16-byte aligned
/// @param O      out, the same shape
/// @param L      out, float [batch_size, num_heads, seq_len], the natural-log LSE; may be null
/// @param batch_size ≥ 1
/// @param num_heads  heads of Q, K and V alike, ≥ 1
/// @param seq_len    queries and keys a head, ≥ 1
/// @param head_dim   elements of a row: 32, 64 or 128
/// @param scale  softmax scale, usually 1/√head_dim
/// @param causal query i sees key j only if j ≤ i
/// @param stream CUDA stream; 0 is the default stream
/// @return SUCCESS, or the first error in the order FlashAttentionError states
FlashAttentionError flash_attention_forward(const float* Q, const float* K, const float* V,
                                            float* O, float* L, int batch_size, int num_heads,
                                            int seq_len, int head_dim, float scale, bool causal,
                                            cudaStream_t stream = nullptr);
/// @overload
FlashAttentionError flash_attention_forward(const __half* Q, const __half* K, const __half* V,
                                            __half* O, float* L, int batch_size, int num_heads,
                                            int seq_len, int head_dim, float scale, bool causal,
                                            cudaStream_t stream = nullptr);
/// @overload
FlashAttentionError flash_attention_forward(const __nv_bfloat16* Q, const __nv_bfloat16* K,
                                            const __nv_bfloat16* V, __nv_bfloat16* O, float* L,
                                            int batch_size, int num_heads, int seq_len,
                                            int head_dim, float scale, bool causal,
                                            cudaStream_t stream = nullptr);

/// Gradients of flash_attention_forward(): all tensors contiguous [batch_size, num_heads, seq_len,
/// head_dim].
/// @param Q,K,V    in, the forward pass's inputs
/// @param O,L      in, the forward pass's outputs; L is required here
/// @param dO       in, gradient of the loss with respect to O
/// @param dQ,dK,dV out; a null one is not computed
/// @param batch_size,num_heads,seq_len,head_dim as in the forward pass
/// @param scale,causal,stream as in the forward pass
/// @return SUCCESS, or the first error in the order FlashAttentionError states
FlashAttentionError flash_attention_backward(const float* Q, const float* K, const float* V,
                                             const float* O, const float* L, const float* dO,
                                             float* dQ, float* dK, float* dV, int batch_size,
                                             int num_heads, int seq_len, int head_dim, float scale,
                                             bool causal, cudaStream_t stream = nullptr);
/// @overload
FlashAttentionError flash_attention_backward(const __half* Q, const __half* K, const __half* V,
                                             const __half* O, const float* L, const __half* dO,
                                             __half* dQ, __half* dK, __half* dV, int batch_size,
                                             int num_heads, int seq_len, int head_dim, float scale,
                                             bool causal, cudaStream_t stream = nullptr);
/// @overload
FlashAttentionError flash_attention_backward(const __nv_bfloat16* Q, const __nv_bfloat16* K,
                                             const __nv_bfloat16* V, const __nv_bfloat16* O,
                                             const float* L, const __nv_bfloat16* dO,
                                             __nv_bfloat16* dQ, __nv_bfloat16* dK,
                                             __nv_bfloat16* dV, int batch_size, int num_heads,
                                             int seq_len, int head_dim, float scale, bool causal,
                                             cudaStream_t stream = nullptr);

/// The full form of the forward pass: grouped heads, seq_q ≠ seq_kv, strides, a chosen stage.
/// @param problem sizes, dtype, mask and scale
/// @param args    tensors; see Forward for shapes
/// @param stream  CUDA stream; 0 is the default stream
/// @param stage   a stage's name, or null: the one named by the environment variable CUFLASH_STAGE,
///                else the fastest stage that supports the problem on the current device
/// @return SUCCESS, or the first error in the order FlashAttentionError states
FlashAttentionError forward(const Problem& problem, const Forward& args,
                            cudaStream_t stream = nullptr, const char* stage = nullptr);

/// The full form of the backward pass; parameters as in forward().
FlashAttentionError backward(const Problem& problem, const Backward& args,
                             cudaStream_t stream = nullptr, const char* stage = nullptr);

/// Bytes of workspace that forward() or backward() needs for this problem with this choice of
/// stage; 0 when the call would be refused.
std::size_t workspace_bytes(Pass pass, const Problem& problem, const char* stage = nullptr);

}  // namespace cuflash

#endif  // CUFLASH_FLASH_ATTENTION_H_
