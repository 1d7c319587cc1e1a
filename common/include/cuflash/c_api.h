/// @file c_api.h
/// The public API in C: attention forward and backward on device memory. The header is C11, for C
/// and for every language that calls C. problem.h gives the formulas; flash_attention.h is the same
/// API in C++.
///
/// Checks. Every call checks its arguments on the host, in the order that cuflash_error states,
/// before anything is launched: a refused call launches nothing and writes nothing. A call that
/// fails later, with CUFLASH_CUDA_ERROR, may have written part of its outputs. The caller must
/// ensure what no call checks: the device can access the tensors, the tensors are as large as the
/// sizes say, the inputs are finite (problem.h gives their range), and no output overlaps another
/// tensor.
///
/// Streams. A call queues its work on `stream` of the current device and returns; it never waits
/// for the device. The tensors and the caller's workspace must live until that work is done. A
/// workspace that the library allocates is allocated and freed in the stream's order. A call can be
/// captured in a CUDA graph. CUDA itself may wait: it loads a kernel when the kernel first runs in
/// a process, and loading may wait for work in flight. With CUDA_MODULE_LOADING=EAGER in the
/// environment, CUDA loads all kernels at startup.
///
/// Threads. Every function may be called from several threads at once, on one stream or on many.
/// Two calls in flight on different streams must not share a workspace or an output. Calls without
/// a stage's name read the environment variable CUFLASH_STAGE, so no other thread may change the
/// environment at the same time.
#ifndef CUFLASH_C_API_H_
#define CUFLASH_C_API_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuflash/version.h"

// CUDA's own type, named but not included: a user of the CPU simulator needs no CUDA headers.
struct CUstream_st;
/// CUDA's stream handle, as cuda_runtime.h declares it; null is the legacy default stream, however
/// the program itself is compiled.
typedef struct CUstream_st* cudaStream_t;

/// Declares an enum whose values take 32 bits in C as in C++, so that it can be a struct's field.
#ifdef __cplusplus
#define CUFLASH_ENUM(name) enum name : int32_t
#else
#define CUFLASH_ENUM(name) \
  typedef int32_t name;    \
  enum name
#endif

#ifdef __cplusplus
extern "C" {
#endif
// The library exports these functions even if it is compiled with hidden visibility.
#pragma GCC visibility push(default)

/// What a call returns: 0, or why it was refused or failed. cuflash_error_string() explains each.
/// Arguments are checked in this order, and the first fault is returned: CUFLASH_NULL_POINTER for a
/// struct that is null, CUFLASH_INVALID_DIMENSION for a struct's own size; then
/// CUFLASH_INVALID_DIMENSION, CUFLASH_DIMENSION_MISMATCH, CUFLASH_UNSUPPORTED_DTYPE,
/// CUFLASH_UNSUPPORTED_HEAD_DIM, CUFLASH_INVALID_SCALE, CUFLASH_NULL_POINTER, CUFLASH_MISALIGNED,
/// CUFLASH_SIZE_OVERFLOW, CUFLASH_UNKNOWN_STAGE, CUFLASH_UNSUPPORTED_DEVICE,
/// CUFLASH_UNSUPPORTED_BY_STAGE. After them, while the work is queued: CUFLASH_CUDA_ERROR,
/// CUFLASH_OUT_OF_MEMORY, CUFLASH_SIZE_OVERFLOW (of the stage's grid).
CUFLASH_ENUM(cuflash_error){
    CUFLASH_SUCCESS = 0,            ///< success
    CUFLASH_INVALID_DIMENSION = 1,  ///< a size is below 1, window_left or window_right is below -1,
                                    ///< split_keys or num_splits is below 0 or both are set,
                                    ///< split_keys is not a multiple of 64, the sizes of pages
                                    ///< are invalid, a stride is negative, an output overlaps
                                    ///< itself, or a struct's own size is invalid
    CUFLASH_DIMENSION_MISMATCH = 2,  ///< heads_q is not a multiple of heads_kv
    CUFLASH_NULL_POINTER = 3,        ///< a struct is null, or a required tensor has no data
    CUFLASH_CUDA_ERROR = 4,          ///< the CUDA runtime reported an error
    CUFLASH_OUT_OF_MEMORY = 5,       ///< the caller's workspace is too small, or the library could
                                     ///< not allocate one
    CUFLASH_UNSUPPORTED_HEAD_DIM = 6,   ///< head_dim is not 32, 64, 96, 128 or 256
    CUFLASH_UNSUPPORTED_DTYPE = 7,      ///< the dtype is not one of cuflash_dtype
    CUFLASH_INVALID_SCALE = 8,          ///< softmax_scale is not finite or not positive
    CUFLASH_MISALIGNED = 9,             ///< a base address or a stride is not a multiple of 16
                                        ///< bytes, the workspace's address of 256, or the
                                        ///< address of LSE, seqused_k, k_begin, kv_batch or
                                        ///< block_table of 4
    CUFLASH_SIZE_OVERFLOW = 10,         ///< a tensor, the workspace or the grid is too large to
                                        ///< address
    CUFLASH_UNSUPPORTED_DEVICE = 11,    ///< the stage is not built for this device, or there is no
                                        ///< device
    CUFLASH_UNSUPPORTED_BY_STAGE = 12,  ///< the stage does not support the call's pass, dtype,
                                        ///< head_dim or a feature that it needs
    CUFLASH_UNKNOWN_STAGE = 13          ///< no stage has this name
};

// ---- The simple form ---------------------------------------------------------------------------

/// O = softmax(scale Q K^T) V for contiguous [batch_size, num_heads, seq_len, head_dim] tensors of
/// float in device memory.
///
/// @code{.c}
/// if (cuflash_attention_forward_f32(Q, K, V, O, L, 2, 8, 1024, 64, 0.125f, true, stream)) {
///   fprintf(stderr, "%s\n", cuflash_last_error_message());
/// }
/// @endcode
///
/// @param Q,K,V  in, 16-byte aligned
/// @param O      out, the same shape and alignment
/// @param L      out, float [batch_size, num_heads, seq_len], the natural log of each row's sum of
///               exponentials; 4-byte aligned; may be null
/// @param batch_size at least 1
/// @param num_heads  heads of Q, K and V alike, at least 1
/// @param seq_len    queries and keys per head, at least 1
/// @param head_dim   elements per row: 32, 64 or 128; in f16 and bf16 also 96 and 256
/// @param scale  softmax scale, finite and positive; usually 1/sqrt(head_dim)
/// @param causal query i sees key j only if j <= i
/// @param stream CUDA stream; null is the default stream
/// @return a cuflash_error
int cuflash_attention_forward_f32(const float* Q, const float* K, const float* V, float* O,
                                  float* L, int batch_size, int num_heads, int seq_len,
                                  int head_dim, float scale, bool causal, cudaStream_t stream);
/// cuflash_attention_forward_f32() for tensors of IEEE half; L stays float.
/// @code{.c}
/// cuflash_attention_forward_f16(Q, K, V, O, L, 2, 8, 1024, 64, 0.125f, true, stream);
/// @endcode
int cuflash_attention_forward_f16(const void* Q, const void* K, const void* V, void* O, float* L,
                                  int batch_size, int num_heads, int seq_len, int head_dim,
                                  float scale, bool causal, cudaStream_t stream);
/// cuflash_attention_forward_f32() for tensors of bfloat16; L stays float.
/// @code{.c}
/// cuflash_attention_forward_bf16(Q, K, V, O, L, 2, 8, 1024, 64, 0.125f, true, stream);
/// @endcode
int cuflash_attention_forward_bf16(const void* Q, const void* K, const void* V, void* O, float* L,
                                   int batch_size, int num_heads, int seq_len, int head_dim,
                                   float scale, bool causal, cudaStream_t stream);

/// Gradients of cuflash_attention_forward_f32(): all tensors contiguous [batch_size, num_heads,
/// seq_len, head_dim], 16-byte aligned. The gradients are bitwise identical in every run.
///
/// @code{.c}
/// cuflash_attention_backward_f32(Q, K, V, O, L, dO, dQ, dK, dV, 2, 8, 1024, 64, 0.125f, true,
///                                stream);
/// @endcode
///
/// @param Q,K,V    in, the forward pass's inputs
/// @param O,L      in, the forward pass's outputs; L is required here
/// @param dO       in, gradient of the loss with respect to O
/// @param dQ,dK,dV out; a null one is not computed
/// @param batch_size,num_heads,seq_len,head_dim as in the forward pass
/// @param scale,causal,stream as in the forward pass
/// @return a cuflash_error
int cuflash_attention_backward_f32(const float* Q, const float* K, const float* V, const float* O,
                                   const float* L, const float* dO, float* dQ, float* dK, float* dV,
                                   int batch_size, int num_heads, int seq_len, int head_dim,
                                   float scale, bool causal, cudaStream_t stream);
/// cuflash_attention_backward_f32() for tensors of IEEE half; L stays float.
/// @code{.c}
/// cuflash_attention_backward_f16(Q, K, V, O, L, dO, dQ, dK, dV, 2, 8, 1024, 64, 0.125f, true,
///                                stream);
/// @endcode
int cuflash_attention_backward_f16(const void* Q, const void* K, const void* V, const void* O,
                                   const float* L, const void* dO, void* dQ, void* dK, void* dV,
                                   int batch_size, int num_heads, int seq_len, int head_dim,
                                   float scale, bool causal, cudaStream_t stream);
/// cuflash_attention_backward_f32() for tensors of bfloat16; L stays float.
/// @code{.c}
/// cuflash_attention_backward_bf16(Q, K, V, O, L, dO, dQ, dK, dV, 2, 8, 1024, 64, 0.125f, true,
///                                 stream);
/// @endcode
int cuflash_attention_backward_bf16(const void* Q, const void* K, const void* V, const void* O,
                                    const float* L, const void* dO, void* dQ, void* dK, void* dV,
                                    int batch_size, int num_heads, int seq_len, int head_dim,
                                    float scale, bool causal, cudaStream_t stream);

// ---- The full form: grouped heads, a window, a cache of keys, strides, a chosen stage ----------

/// The element types.
CUFLASH_ENUM(cuflash_dtype){
    CUFLASH_F32 = 0,   ///< float
    CUFLASH_F16 = 1,   ///< IEEE half
    CUFLASH_BF16 = 2,  ///< bfloat16
};

/// The two passes.
CUFLASH_ENUM(cuflash_pass){
    CUFLASH_FORWARD = 0,  ///< O and LSE
    CUFLASH_BACKWARD = 1  ///< dQ, dK and dV
};

/// One rank-4 tensor in device memory. All strides are in elements and the head dimension has
/// stride 1, so [B,H,S,D] and [B,S,H,D] both work without a copy. The base address and every stride
/// of an extent above 1 must be a multiple of 16 bytes. An input may repeat rows (stride 0). An
/// output must not overlap itself: in order of increasing stride, each stride must step over all
/// elements of the dimensions before it.
///
/// @code{.c}
/// const cuflash_tensor bhsd = {data, 8 * 1024 * 64, 1024 * 64, 64};    // [batch, 8, 1024, 64]
/// const cuflash_tensor bshd = {data, 1024 * 8 * 64, 64, 8 * 64};       // [batch, 1024, 8, 64]
/// @endcode
typedef struct cuflash_tensor {
  void* data;            ///< element (0, 0, 0, 0); an input is only read
  int64_t batch_stride;  ///< elements from one batch to the next
  int64_t head_stride;   ///< elements from one head to the next
  int64_t row_stride;    ///< elements from one sequence position to the next
} cuflash_tensor;

/// For an initializer of cuflash_problem in C: no window. Without it, both fields would be 0 and
/// each query would see at most one key.
#define CUFLASH_NO_WINDOW .window_left = -1, .window_right = -1

/// The sizes and the mask of one attention problem. Q, O, dO, dQ are [batch, heads_q, seq_q,
/// head_dim]; K, V, dK, dV are [batch, heads_kv, seq_kv, head_dim].
///
/// The mask. The last query is aligned with the last key, so the position of query i is that of key
/// i + seq_kv - seq_q. The query sees the keys from `window_left` positions before its own to
/// `window_right` positions after it: it sees key j if and only if
///
///     -window_left <= j - (i + seq_kv - seq_q) <= window_right
///
/// A side that is -1 has no limit. If `causal` is not 0, the right limit is 0, whatever
/// window_right is. In C, a problem without a window needs CUFLASH_NO_WINDOW: an initializer sets
/// omitted fields to 0, and 0 is a limit.
///
/// The parts. A stage for few queries divides the keys among blocks, each of which computes a part
/// of the row's sums; it then merges the parts. If split_keys and num_splits are both 0, the
/// library chooses the division, which depends on the other sizes and the device. With split_keys =
/// n, every row's keys are summed in parts that begin at the multiples of n, counted from key 0 of
/// the cache: the bits of a row then depend only on its own query, keys and mask, not on the other
/// sequences, nor on seq_q, seq_kv or the device's number of SMs. With num_splits = n, the keys of
/// each sequence are divided into n parts of equal length. At most one of the two may be set, and
/// only for a forward call whose stage supports it.
///
/// The pages. If page_size is not 0, K and V are num_pages pages of page_size rows each, and a
/// forward call's block_table names the pages of each sequence: key j of sequence b is row
/// j % page_size of page block_table[b * pages_per_seq + j / page_size]. seq_kv is the largest
/// number of keys that a sequence may have.
///
/// This struct and the two below begin with their own size, so that a later version can add fields
/// at the end. A shorter struct comes from an earlier version and uses no later field: one of 40
/// bytes ends before window_left and has no window, one of 48 bytes ends before split_keys, one of
/// 56 before page_size. A call returns CUFLASH_INVALID_DIMENSION for a struct that is shorter than
/// the first version's, for one of more than 4,096 bytes, for one whose size is not a multiple of
/// its alignment (4 bytes here, 8 below), and for one in which a byte beyond the fields declared
/// here is not 0: a newer program uses that byte for a field that this library does not have.
///
/// @code{.c}
/// const cuflash_problem problem = {.size = sizeof problem, .batch = 2, .heads_q = 8,
///                                  .heads_kv = 2, .seq_q = 1024, .seq_kv = 4096, .head_dim = 64,
///                                  .dtype = CUFLASH_BF16, .causal = 1, .softmax_scale = 0.125f,
///                                  CUFLASH_NO_WINDOW};
/// @endcode
typedef struct cuflash_problem {
  uint32_t size;          ///< sizeof(cuflash_problem)
  int32_t batch;          ///< at least 1
  int32_t heads_q;        ///< query heads, a multiple of heads_kv
  int32_t heads_kv;       ///< key and value heads; fewer than heads_q means grouped-query attention
  int32_t seq_q;          ///< queries per head, at least 1
  int32_t seq_kv;         ///< keys per head, at least 1
  int32_t head_dim;       ///< 32, 64 or 128; in f16 and bf16 also 96 and 256
  cuflash_dtype dtype;    ///< the element type of every tensor but LSE
  int32_t causal;         ///< nonzero: no query sees a key after its own position
  float softmax_scale;    ///< finite and positive; usually 1/sqrt(head_dim)
  int32_t window_left;    ///< how many keys before its own position a query sees; -1: all
  int32_t window_right;   ///< how many keys after its own position a query sees; -1: all
  int32_t split_keys;     ///< keys per part, a multiple of 64; 0: the library divides the keys
  int32_t num_splits;     ///< parts of each sequence's keys; 0: the library divides the keys
  int32_t page_size;      ///< rows of a page of K and V, a multiple of 16; 0: there are no pages
  int32_t num_pages;      ///< pages of K and V; 0 without pages
  int32_t pages_per_seq;  ///< entries of block_table for each sequence; 0 without pages
} cuflash_problem;

/// The tensors of one forward call. A row that sees no key gets O = 0 and LSE = -inf.
///
/// A cache. K and V may be a cache of keys and values whose capacity is seq_kv. Three arrays in
/// device memory then say what each sequence has in it; a null one says nothing, and a call with
/// any of them needs a stage that supports it. The call reads them when it runs, not when it is
/// queued, so a CUDA graph can be replayed with other values.
///
/// With seqused_k, sequence b has only its first seqused_k[b] keys. What lies behind them, NaN
/// included, never reaches a result. The mask is aligned with the last of these keys: in
/// cuflash_problem's formula, the number of keys replaces seq_kv. So if seq_q is greater, a causal
/// mask lets the first queries see nothing. A sequence of 0 keys gets O = 0 and LSE = -inf; one
/// whose length is below 0 or above seq_kv gets NaN in all its rows.
///
/// k_begin is for sequences that are padded on the left: no query of sequence b sees a key before
/// k_begin[b], whose value NaN never reaches a result either.
///
/// With kv_batch, sequence b reads K and V number kv_batch[b], so that several sequences can share
/// one, or a batch can use some of many. k.batch_stride and v.batch_stride are then the elements
/// from one to the next, even if batch is 1. The library cannot check these numbers: the caller
/// ensures that K and V have them. seqused_k and k_begin are still those of sequence b.
///
/// With pages (cuflash_problem.page_size), K and V are [num_pages, heads_kv, page_size, head_dim]:
/// batch_stride steps from page to page, and row_stride from row to row of a page. Sequences may
/// share pages. An entry of block_table counts only if a query sees a key in its page. If it is
/// then below 0, or not below num_pages, or if the table has no entry for the key, the rows that
/// see the key get NaN, and nothing outside K and V is read. kv_batch must be null.
typedef struct cuflash_forward_args {
  uint32_t size;     ///< sizeof(cuflash_forward_args)
  cuflash_tensor q;  ///< in, [batch, heads_q, seq_q, head_dim]
  cuflash_tensor k;  ///< in, [batch, heads_kv, seq_kv, head_dim], or pages
  cuflash_tensor v;  ///< in, [batch, heads_kv, seq_kv, head_dim], or pages
  cuflash_tensor o;  ///< out, [batch, heads_q, seq_q, head_dim]
  float* lse;        ///< out, [batch, heads_q, seq_q], natural log, contiguous; may be null
  void* workspace;   ///< cuflash_workspace_bytes() of scratch, 256-byte aligned; null: the library
                     ///< allocates it in stream order
  uint64_t workspace_bytes;    ///< the size of `workspace`; ignored if `workspace` is null
  const int32_t* seqused_k;    ///< in, [batch], the number of keys of each sequence, from 0 to
                               ///< seq_kv; null: each has seq_kv
  const int32_t* k_begin;      ///< in, [batch], the first key that a query may see; a value below 0
                               ///< counts as 0; null: 0
  const int32_t* kv_batch;     ///< in, [batch], the number of each sequence's K and V; null: b
  const int32_t* block_table;  ///< in, [batch, pages_per_seq], the pages of each sequence; null
                               ///< without pages
} cuflash_forward_args;

/// The tensors of one backward call. A dq, dk or dv whose data is null is not computed; if all
/// three are null, nothing is queued.
typedef struct cuflash_backward_args {
  uint32_t size;             ///< sizeof(cuflash_backward_args)
  int32_t deterministic;     ///< nonzero: the gradients are bitwise identical in every run. 0: some
                             ///< stages add to dQ in an unspecified order, which is faster, but its
                             ///< last bits may differ from run to run
  cuflash_tensor q;          ///< in, [batch, heads_q, seq_q, head_dim]
  cuflash_tensor k;          ///< in, [batch, heads_kv, seq_kv, head_dim]
  cuflash_tensor v;          ///< in, [batch, heads_kv, seq_kv, head_dim]
  cuflash_tensor o;          ///< in, the forward pass's output
  cuflash_tensor d_o;        ///< in, gradient of the loss with respect to O
  cuflash_tensor dq;         ///< out, [batch, heads_q, seq_q, head_dim]; data may be null
  cuflash_tensor dk;         ///< out, [batch, heads_kv, seq_kv, head_dim]; data may be null
  cuflash_tensor dv;         ///< out, [batch, heads_kv, seq_kv, head_dim]; data may be null
  const float* lse;          ///< in, the forward pass's LSE, [batch, heads_q, seq_q]
  void* workspace;           ///< as in cuflash_forward_args
  uint64_t workspace_bytes;  ///< as in cuflash_forward_args
} cuflash_backward_args;

/// O = softmax(scale Q K^T) V and LSE, with the mask that cuflash_problem describes.
///
/// @code{.c}
/// const cuflash_forward_args args = {.size = sizeof args, .q = q, .k = k, .v = v, .o = o,
///                                    .lse = L};
/// const int error = cuflash_forward(&problem, &args, NULL, stream);
/// @endcode
///
/// @param problem sizes, dtype, mask and scale
/// @param args    tensors
/// @param stage   a stage's name, or null: the one named by the environment variable CUFLASH_STAGE
///                if that is set and not empty, else the fastest stage that supports the problem on
///                the current device
/// @param stream  CUDA stream; null is the default stream
/// @return a cuflash_error
int cuflash_forward(const cuflash_problem* problem, const cuflash_forward_args* args,
                    const char* stage, cudaStream_t stream);

/// dQ, dK and dV; parameters and result as in cuflash_forward().
///
/// @code{.c}
/// const cuflash_backward_args args = {.size = sizeof args, .deterministic = 1, .q = q, .k = k,
///                                     .v = v, .o = o, .d_o = d_o, .dq = dq, .dk = dk, .dv = dv,
///                                     .lse = L};
/// const int error = cuflash_backward(&problem, &args, NULL, stream);
/// @endcode
int cuflash_backward(const cuflash_problem* problem, const cuflash_backward_args* args,
                     const char* stage, cudaStream_t stream);

// ---- Support, stages and errors ----------------------------------------------------------------

/// Checks whether this pass of this problem can run on the current device, whatever the tensors. A
/// stage may refuse tensors with a stride of 2^40 bytes or more; a call that names it then returns
/// CUFLASH_UNSUPPORTED_BY_STAGE.
///
/// @code{.c}
/// if (cuflash_check_support(CUFLASH_BACKWARD, &problem, "05_wmma") != CUFLASH_SUCCESS) {
///   puts(cuflash_last_error_message());  // 05_wmma has no backward pass
/// }
/// @endcode
///
/// @param pass    a cuflash_pass; any other value is refused first, with
///                CUFLASH_UNSUPPORTED_BY_STAGE
/// @param problem sizes, dtype, mask and scale
/// @param stage   as in cuflash_forward()
/// @return CUFLASH_SUCCESS if it can, else the cuflash_error that the call would return;
///         cuflash_last_error_message() says why. After CUFLASH_SUCCESS the call may still fail
///         while its work is queued, for lack of memory or because its grid is too large
int cuflash_check_support(int pass, const cuflash_problem* problem, const char* stage);

/// The stage that a call would run. If this stage does not support the call's strides, its
/// seqused_k, k_begin or kv_batch, its null gradients or its `deterministic`, the call runs another
/// stage, or is refused if it named this one.
///
/// @code{.c}
/// const char* fastest = cuflash_chosen_stage(CUFLASH_FORWARD, &problem, NULL);
/// @endcode
///
/// @param pass    a cuflash_pass
/// @param problem sizes, dtype, mask and scale
/// @param stage   as in cuflash_forward()
/// @return its full name, e.g. "04_register_tiles"; null if cuflash_check_support() returns an
///         error
const char* cuflash_chosen_stage(int pass, const cuflash_problem* problem, const char* stage);

/// Bytes of workspace that a call needs, deterministic or not, with null gradients or not. They
/// depend on the problem, the stage, the device and the library's version. A call with a stride of
/// 2^40 bytes or more, or with seqused_k, k_begin or kv_batch, may run another stage and need more;
/// if it fails for that reason, its message gives the stage and the size.
///
/// @code{.c}
/// const size_t bytes = cuflash_workspace_bytes(CUFLASH_BACKWARD, &problem, NULL);
/// @endcode
///
/// @param pass    a cuflash_pass
/// @param problem sizes, dtype, mask and scale
/// @param stage   as in cuflash_forward()
/// @return bytes; 0 if none are needed. Also 0 if cuflash_check_support() returns an error:
///         cuflash_last_error_message() is then not empty
size_t cuflash_workspace_bytes(int pass, const cuflash_problem* problem, const char* stage);

/// The number of stages in the library.
///
/// @code{.c}
/// for (int n = 0; n < cuflash_num_stages(); ++n) puts(cuflash_stage_name(n));
/// @endcode
int cuflash_num_stages(void);

/// The name of a stage, for the calls above; cuflash_num_stages() has an example.
/// @param index from 0, in teaching order
/// @return null if `index` is below 0 or not below cuflash_num_stages()
const char* cuflash_stage_name(int index);

/// The meaning of a cuflash_error, as one English sentence. Never null.
/// @code{.c}
/// puts(cuflash_error_string(CUFLASH_DIMENSION_MISMATCH));
/// // heads_q is not a multiple of heads_kv
/// @endcode
const char* cuflash_error_string(int error);

/// One sentence that says why this thread's last call was refused or failed, with the offending
/// values; empty if the call succeeded. Valid until this thread's next call.
/// @code{.c}
/// cuflash_attention_forward_f32(Q, K, V, O, L, 2, 8, 1024, 40, 0.125f, true, stream);
/// puts(cuflash_last_error_message());  // head_dim is 40; it must be 32, 64, 96, 128 or 256
/// @endcode
const char* cuflash_last_error_message(void);

/// Where this library's kernels run.
/// @code{.c}
/// printf("kernels run on %s\n", cuflash_backend());
/// @endcode
/// @return "cuda": an NVIDIA GPU; "simt": the CPU simulator, whose device memory is host memory
const char* cuflash_backend(void);

/// The library's version as one number; CUFLASH_VERSION is the header's.
/// @code{.c}
/// if (cuflash_version() < CUFLASH_VERSION) puts("the library is older than its header");
/// @endcode
int cuflash_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // CUFLASH_C_API_H_
