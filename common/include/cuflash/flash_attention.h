/// @file flash_attention.h
/// The public API in C++: attention forward and backward on device memory. A C compiler sees only
/// c_api.h, which this header includes. Each function here calls the C function that its comment
/// names. c_api.h documents the arguments, fields and errors, and the rules for checks, streams and
/// threads that hold for every call.
///
/// All functions are inline and call the C interface, so the library exports C functions only, and
/// a program runs with every later version of the library that has the same major version. No
/// function throws.
#ifndef CUFLASH_FLASH_ATTENTION_H_
#define CUFLASH_FLASH_ATTENTION_H_

#include "cuflash/c_api.h"

#ifdef __cplusplus

#include <cstddef>

#include "cuflash/error.h"
#include "cuflash/problem.h"

struct __half;
struct __nv_bfloat16;

namespace cuflash {

/// cuflash_last_error_message(): why this thread's last call was refused.
/// @code{.cpp}
/// throw std::runtime_error(cuflash::last_error_message());
/// @endcode
inline const char* last_error_message() noexcept { return cuflash_last_error_message(); }

// ---- The simple form ---------------------------------------------------------------------------

/// O = softmax(scale · Q Kᵀ) V for contiguous [batch_size, num_heads, seq_len, head_dim] tensors in
/// device memory.
///
/// @code{.cpp}
/// auto err =
///     cuflash::flash_attention_forward(Q, K, V, O, L, 2, 8, 1024, 64, 0.125f, true, stream);
/// if (err != cuflash::FlashAttentionError::SUCCESS) std::puts(cuflash::last_error_message());
/// @endcode
///
/// It calls cuflash_attention_forward_f32(), which documents each argument. The overloads are for
/// half and bfloat16; L, the natural-log LSE, stays float, and may be null.
inline FlashAttentionError flash_attention_forward(const float* Q, const float* K, const float* V,
                                                   float* O, float* L, int batch_size,
                                                   int num_heads, int seq_len, int head_dim,
                                                   float scale, bool causal,
                                                   cudaStream_t stream = nullptr) noexcept {
  return static_cast<FlashAttentionError>(cuflash_attention_forward_f32(
      Q, K, V, O, L, batch_size, num_heads, seq_len, head_dim, scale, causal, stream));
}
/// @overload
inline FlashAttentionError flash_attention_forward(const __half* Q, const __half* K,
                                                   const __half* V, __half* O, float* L,
                                                   int batch_size, int num_heads, int seq_len,
                                                   int head_dim, float scale, bool causal,
                                                   cudaStream_t stream = nullptr) noexcept {
  return static_cast<FlashAttentionError>(cuflash_attention_forward_f16(
      Q, K, V, O, L, batch_size, num_heads, seq_len, head_dim, scale, causal, stream));
}
/// @overload
inline FlashAttentionError flash_attention_forward(const __nv_bfloat16* Q, const __nv_bfloat16* K,
                                                   const __nv_bfloat16* V, __nv_bfloat16* O,
                                                   float* L, int batch_size, int num_heads,
                                                   int seq_len, int head_dim, float scale,
                                                   bool causal,
                                                   cudaStream_t stream = nullptr) noexcept {
  return static_cast<FlashAttentionError>(cuflash_attention_forward_bf16(
      Q, K, V, O, L, batch_size, num_heads, seq_len, head_dim, scale, causal, stream));
}

/// Gradients of flash_attention_forward(), bitwise identical in every run; a null dQ, dK or dV is
/// not computed.
///
/// @code{.cpp}
/// auto err = cuflash::flash_attention_backward(Q, K, V, O, L, dO, dQ, dK, dV, 2, 8, 1024, 64,
///                                              0.125f, true, stream);
/// @endcode
///
/// It calls cuflash_attention_backward_f32(), which documents each argument.
inline FlashAttentionError flash_attention_backward(const float* Q, const float* K, const float* V,
                                                    const float* O, const float* L, const float* dO,
                                                    float* dQ, float* dK, float* dV, int batch_size,
                                                    int num_heads, int seq_len, int head_dim,
                                                    float scale, bool causal,
                                                    cudaStream_t stream = nullptr) noexcept {
  return static_cast<FlashAttentionError>(
      cuflash_attention_backward_f32(Q, K, V, O, L, dO, dQ, dK, dV, batch_size, num_heads, seq_len,
                                     head_dim, scale, causal, stream));
}
/// @overload
inline FlashAttentionError flash_attention_backward(
    const __half* Q, const __half* K, const __half* V, const __half* O, const float* L,
    const __half* dO, __half* dQ, __half* dK, __half* dV, int batch_size, int num_heads,
    int seq_len, int head_dim, float scale, bool causal, cudaStream_t stream = nullptr) noexcept {
  return static_cast<FlashAttentionError>(
      cuflash_attention_backward_f16(Q, K, V, O, L, dO, dQ, dK, dV, batch_size, num_heads, seq_len,
                                     head_dim, scale, causal, stream));
}
/// @overload
inline FlashAttentionError flash_attention_backward(
    const __nv_bfloat16* Q, const __nv_bfloat16* K, const __nv_bfloat16* V, const __nv_bfloat16* O,
    const float* L, const __nv_bfloat16* dO, __nv_bfloat16* dQ, __nv_bfloat16* dK,
    __nv_bfloat16* dV, int batch_size, int num_heads, int seq_len, int head_dim, float scale,
    bool causal, cudaStream_t stream = nullptr) noexcept {
  return static_cast<FlashAttentionError>(
      cuflash_attention_backward_bf16(Q, K, V, O, L, dO, dQ, dK, dV, batch_size, num_heads, seq_len,
                                      head_dim, scale, causal, stream));
}

// ---- The full form -----------------------------------------------------------------------------

/// The full form of the forward pass: grouped heads, seq_q ≠ seq_kv, a window, strides, a chosen
/// stage. It calls cuflash_forward(), which takes `stage` before `stream`.
///
/// @code{.cpp}
/// cuflash::Problem p;  // one batch, one head, f16
/// p.heads_q = 8;
/// p.heads_kv = 2;
/// p.seq_q = p.seq_kv = 1024;
/// p.softmax_scale = cuflash::default_scale(p.head_dim);
/// cuflash::Forward args;
/// args.q = cuflash::contiguous(Q, p.heads_q, p.seq_q, p.head_dim);
/// args.k = cuflash::contiguous(K, p.heads_kv, p.seq_kv, p.head_dim);
/// args.v = cuflash::contiguous(V, p.heads_kv, p.seq_kv, p.head_dim);
/// args.o = cuflash::contiguous(O, p.heads_q, p.seq_q, p.head_dim);
/// auto err = cuflash::forward(p, args, stream);
/// @endcode
inline FlashAttentionError forward(const Problem& problem, const Forward& args,
                                   cudaStream_t stream = nullptr,
                                   const char* stage = nullptr) noexcept {
  return static_cast<FlashAttentionError>(cuflash_forward(&problem, &args, stage, stream));
}

/// The full form of the backward pass. It calls cuflash_backward(). The gradients are bitwise
/// identical in every run, unless args.deterministic is set to 0.
///
/// @code{.cpp}
/// cuflash::Backward args;  // q, k, v, o, d_o and lse as well
/// args.dq = cuflash::contiguous(dQ, p.heads_q, p.seq_q, p.head_dim);
/// auto err = cuflash::backward(p, args, stream, "04_register_tiles");
/// @endcode
inline FlashAttentionError backward(const Problem& problem, const Backward& args,
                                    cudaStream_t stream = nullptr,
                                    const char* stage = nullptr) noexcept {
  return static_cast<FlashAttentionError>(cuflash_backward(&problem, &args, stage, stream));
}

/// Checks whether this pass of this problem can run on the current device. It calls
/// cuflash_check_support().
/// @code{.cpp}
/// auto answer = cuflash::check_support(CUFLASH_BACKWARD, p, "05_wmma");
/// @endcode
inline FlashAttentionError check_support(Pass pass, const Problem& problem,
                                         const char* stage = nullptr) noexcept {
  return static_cast<FlashAttentionError>(cuflash_check_support(pass, &problem, stage));
}

/// The full name of the stage that forward() or backward() would run: cuflash_chosen_stage().
/// @code{.cpp}
/// const char* fastest = cuflash::chosen_stage(CUFLASH_FORWARD, p);
/// @endcode
inline const char* chosen_stage(Pass pass, const Problem& problem,
                                const char* stage = nullptr) noexcept {
  return cuflash_chosen_stage(pass, &problem, stage);
}

/// Bytes of workspace that forward() or backward() needs, deterministic or not:
/// cuflash_workspace_bytes().
/// @code{.cpp}
/// std::size_t bytes = cuflash::workspace_bytes(CUFLASH_BACKWARD, p);
/// @endcode
inline std::size_t workspace_bytes(Pass pass, const Problem& problem,
                                   const char* stage = nullptr) noexcept {
  return cuflash_workspace_bytes(pass, &problem, stage);
}

}  // namespace cuflash

#endif  // __cplusplus

#endif  // CUFLASH_FLASH_ATTENTION_H_
