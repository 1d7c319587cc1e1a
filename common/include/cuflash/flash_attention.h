/// @file flash_attention.h
/// The public API, in C and in C++: attention forward and backward on device memory.
///
/// The C part comes first and stands alone: a C11 compiler reads this header, and so can every
/// language that calls C. What is computed, and in which words, problem.h says.
///
/// Every call checks its arguments on the host, in the order FlashAttentionError states, before
/// anything is launched: a refused call launches nothing and writes nothing. A call that is not
/// refused queues its work on `stream` and returns; it never synchronises the device. Calls are
/// safe from several threads at once.
#ifndef CUFLASH_FLASH_ATTENTION_H_
#define CUFLASH_FLASH_ATTENTION_H_

#include <stddef.h>
#include <stdint.h>

#include "cuflash/version.h"

// CUDA's own types, named but not included: a user of the CPU machine needs no CUDA headers.
struct CUstream_st;
/// CUDA's stream handle, as cuda_runtime.h declares it; null is the default stream.
typedef struct CUstream_st* cudaStream_t;

#ifdef __cplusplus
extern "C" {
#endif

/// What a call returns: 0, or why it was refused or failed. FlashAttentionError has the same values
/// and says more about each.
enum cuflash_error {
  CUFLASH_SUCCESS = 0,                ///< the work is queued on the stream
  CUFLASH_INVALID_DIMENSION = 1,      ///< a size or a stride, or a struct that is too small
  CUFLASH_DIMENSION_MISMATCH = 2,     ///< heads_q is not a multiple of heads_kv
  CUFLASH_NULL_POINTER = 3,           ///< a struct is null, or a required tensor has no data
  CUFLASH_CUDA_ERROR = 4,             ///< the CUDA runtime reported an error
  CUFLASH_OUT_OF_MEMORY = 5,          ///< the workspace could not be allocated
  CUFLASH_UNSUPPORTED_HEAD_DIM = 6,   ///< head_dim is not 32, 64 or 128
  CUFLASH_UNSUPPORTED_DTYPE = 7,      ///< not f32, f16 or bf16
  CUFLASH_INVALID_SCALE = 8,          ///< softmax_scale is not finite or not positive
  CUFLASH_MISALIGNED = 9,             ///< a base or a stride is not a multiple of 16 bytes
  CUFLASH_SIZE_OVERFLOW = 10,         ///< a tensor, the workspace or the grid is too large
  CUFLASH_UNSUPPORTED_DEVICE = 11,    ///< the stage is not built for this device, or there is none
  CUFLASH_UNSUPPORTED_BY_STAGE = 12,  ///< the stage lacks this pass, dtype or head_dim
  CUFLASH_UNKNOWN_STAGE = 13          ///< no stage has the name that was asked for
};

/// Element types: values of cuflash_problem's `dtype`.
enum cuflash_dtype {
  CUFLASH_F32 = 0,  ///< float
  CUFLASH_F16 = 1,  ///< IEEE half
  CUFLASH_BF16 = 2  ///< bfloat16
};

/// The two passes: values of a `pass` argument.
enum cuflash_pass {
  CUFLASH_FORWARD = 0,  ///< O and LSE
  CUFLASH_BACKWARD = 1  ///< dQ, dK and dV
};

/// One rank-4 tensor in device memory. All strides are in elements and the head dimension has
/// stride 1, so [B,H,S,D] and [B,S,H,D] both work without a copy. The base address and every stride
/// of an extent above 1 must be a multiple of 16 bytes. An input may repeat rows (stride 0); the
/// elements of an output must be distinct.
typedef struct cuflash_tensor {
  void* data;            ///< element (0, 0, 0, 0); an input is only read
  int64_t batch_stride;  ///< elements from one batch to the next
  int64_t head_stride;   ///< elements from one head to the next
  int64_t row_stride;    ///< elements from one sequence position to the next
} cuflash_tensor;

/// The sizes of one attention problem. Q, O, dO, dQ are [batch, heads_q, seq_q, head_dim];
/// K, V, dK, dV are [batch, heads_kv, seq_kv, head_dim].
///
/// This struct and the two below begin with their own size, so that a later version can add fields
/// at the end. A struct smaller than the one declared here is refused with
/// CUFLASH_INVALID_DIMENSION. So is a larger one in which a byte beyond it is not 0: it asks an
/// older library for what that does not know.
typedef struct cuflash_problem {
  uint32_t size;        ///< sizeof(cuflash_problem)
  int32_t batch;        ///< at least 1
  int32_t heads_q;      ///< query heads, a multiple of heads_kv
  int32_t heads_kv;     ///< key and value heads; fewer than heads_q means grouped-query attention
  int32_t seq_q;        ///< queries a head, at least 1
  int32_t seq_kv;       ///< keys a head, at least 1
  int32_t head_dim;     ///< 32, 64 or 128
  int32_t dtype;        ///< a cuflash_dtype: the element type of every tensor but LSE
  int32_t causal;       ///< not 0: query i sees key j only if j <= i + seq_kv - seq_q
  float softmax_scale;  ///< finite and positive; usually 1/sqrt(head_dim)
} cuflash_problem;

/// The tensors of one forward call. A row that sees no key gets O = 0 and LSE = -inf.
typedef struct cuflash_forward_args {
  uint32_t size;     ///< sizeof(cuflash_forward_args)
  cuflash_tensor q;  ///< in, [batch, heads_q, seq_q, head_dim]
  cuflash_tensor k;  ///< in, [batch, heads_kv, seq_kv, head_dim]
  cuflash_tensor v;  ///< in, [batch, heads_kv, seq_kv, head_dim]
  cuflash_tensor o;  ///< out, [batch, heads_q, seq_q, head_dim]
  float* lse;        ///< out, [batch, heads_q, seq_q], natural log, contiguous; may be null
  void* workspace;   ///< cuflash_workspace_bytes() of scratch, 256-byte aligned; null: the library
                     ///< allocates it in stream order
} cuflash_forward_args;

/// The tensors of one backward call. A null dq, dk or dv (data is null) is not computed.
typedef struct cuflash_backward_args {
  uint32_t size;          ///< sizeof(cuflash_backward_args)
  int32_t deterministic;  ///< not 0: ask for gradients that are the same to the bit in every run
  cuflash_tensor q;       ///< in, [batch, heads_q, seq_q, head_dim]
  cuflash_tensor k;       ///< in, [batch, heads_kv, seq_kv, head_dim]
  cuflash_tensor v;       ///< in, [batch, heads_kv, seq_kv, head_dim]
  cuflash_tensor o;       ///< in, the forward pass's output
  cuflash_tensor d_o;     ///< in, gradient of the loss with respect to O
  cuflash_tensor dq;      ///< out, [batch, heads_q, seq_q, head_dim]; data may be null
  cuflash_tensor dk;      ///< out, [batch, heads_kv, seq_kv, head_dim]; data may be null
  cuflash_tensor dv;      ///< out, [batch, heads_kv, seq_kv, head_dim]; data may be null
  const float* lse;       ///< in, the forward pass's LSE, [batch, heads_q, seq_q]
  void* workspace;        ///< as in cuflash_forward_args
} cuflash_backward_args;

/// O = softmax(scale Q K^T) V and LSE.
/// @param problem sizes, dtype, mask and scale
/// @param args    tensors
/// @param stage   a stage's name, or null: the one named by the environment variable CUFLASH_STAGE,
///                else the fastest stage that supports the problem on the current device
/// @param stream  CUDA stream; null is the default stream
/// @return a cuflash_error: CUFLASH_SUCCESS, or the first fault in the order FlashAttentionError
///         states, after CUFLASH_NULL_POINTER for a null struct and CUFLASH_INVALID_DIMENSION for
///         a struct's size
int cuflash_forward(const cuflash_problem* problem, const cuflash_forward_args* args,
                    const char* stage, cudaStream_t stream);

/// dQ, dK and dV; parameters and result as in cuflash_forward().
int cuflash_backward(const cuflash_problem* problem, const cuflash_backward_args* args,
                     const char* stage, cudaStream_t stream);

/// Can this pass of this problem run on the current device? What a call would answer before it
/// looks at its tensors.
/// @param pass    a cuflash_pass
/// @param problem sizes, dtype, mask and scale
/// @param stage   as in cuflash_forward()
/// @return CUFLASH_SUCCESS for yes, else the error that the call would return;
///         cuflash_last_error_message() says why
int cuflash_check_support(int pass, const cuflash_problem* problem, const char* stage);

/// Bytes of workspace that a call needs; 0 when it needs none, and when cuflash_check_support()
/// refuses: then cuflash_last_error_message() is not empty.
/// @param pass    a cuflash_pass
/// @param problem sizes, dtype, mask and scale
/// @param stage   as in cuflash_forward()
size_t cuflash_workspace_bytes(int pass, const cuflash_problem* problem, const char* stage);

/// How many stages the library holds.
int cuflash_num_stages(void);

/// The name of a stage, to be given to the calls above.
/// @param index from 0, in teaching order
/// @return null where `index` is below 0 or not below cuflash_num_stages()
const char* cuflash_stage_name(int index);

/// One English sentence for a cuflash_error, the same for every call. Never null.
const char* cuflash_error_string(int error);

/// The sentence of this thread's last refused call, with the values that were at fault; empty when
/// the last call succeeded. Valid until this thread's next call.
const char* cuflash_last_error_message(void);

/// The library's version as CUFLASH_VERSION has the header's.
int cuflash_version(void);

#ifdef __cplusplus
}  // extern "C"

#include "cuflash/problem.h"

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

/// Can this pass of this problem run on the current device? What forward() or backward() would
/// answer before it looks at its tensors; `stage` as in forward(). last_error_message() says why
/// not.
FlashAttentionError check_support(Pass pass, const Problem& problem, const char* stage = nullptr);

/// Bytes of workspace that forward() or backward() needs for this problem with this choice of
/// stage; 0 when it needs none, and when check_support() refuses.
std::size_t workspace_bytes(Pass pass, const Problem& problem, const char* stage = nullptr);

}  // namespace cuflash

#endif  // __cplusplus

#endif  // CUFLASH_FLASH_ATTENTION_H_
