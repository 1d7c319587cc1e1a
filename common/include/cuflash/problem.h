/// @file problem.h
/// What is computed: the sizes of one attention problem and the tensors of one call.
///
/// Forward, for every batch b and query head h, with its KV head hk = h / (heads_q / heads_kv):
///
///     S = softmax_scale · Q Kᵀ,   P = softmax(S) row by row,   O = P V,   LSE_i = ln Σ_j exp(S_ij)
///
/// (Vaswani et al., "Attention Is All You Need", 2017, eq. 1; LSE as in Dao, "FlashAttention-2",
/// 2023, section 3.1). Backward, with dO given (FlashAttention, 2022, appendix B.2):
///
///     dV = Pᵀ dO,  dP = dO Vᵀ,  delta_i = Σ_d dO_id O_id,  dS = P ∘ (dP − delta),
///     dQ = softmax_scale · dS K,   dK = softmax_scale · dSᵀ Q
///
/// dK and dV are summed over the query heads that share a KV head.
///
/// Inputs are finite, and so are softmax_scale · log₂e and its product with q · k in f32: a tile
/// gives a hidden key the weight 0, but 0 · ∞ is NaN. In f16 the tensor cores' stages round dS to
/// f16, so |dS| stays below 65,504 (scale dO down, as in mixed-precision training). An output
/// overlaps no input and no other output.
#ifndef CUFLASH_PROBLEM_H_
#define CUFLASH_PROBLEM_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cuflash/c_api.h"

/// FlashAttention: the API, and what a stage of the ladder is.
namespace cuflash {

/// Element type of Q, K, V, O and their gradients. Sums and softmax are always float.
enum class DType : int {
  kF32 = CUFLASH_F32,    ///< float
  kF16 = CUFLASH_F16,    ///< IEEE half
  kBF16 = CUFLASH_BF16,  ///< bfloat16
};

/// Which of the two passes a call computes.
enum class Pass : int {
  kForward = CUFLASH_FORWARD,    ///< O and LSE
  kBackward = CUFLASH_BACKWARD,  ///< dQ, dK and dV
};

/// Bytes of one element: 4 for f32, 2 for f16 and bf16.
constexpr std::size_t element_bytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

/// One rank-4 tensor in device memory. All strides are in elements and the head dimension has
/// stride 1, so [B,H,S,D] and [B,S,H,D] both work without a copy. The base address and every stride
/// of an extent above 1 must be a multiple of 16 bytes. An input may repeat rows (stride 0). An
/// output's dimensions must nest: from the smallest stride to the largest, each steps over all that
/// lies inside it.
struct Tensor {
  void* data = nullptr;           ///< element (0, 0, 0, 0)
  std::int64_t batch_stride = 0;  ///< elements from one batch to the next
  std::int64_t head_stride = 0;   ///< elements from one head to the next
  std::int64_t row_stride = 0;    ///< elements from one sequence position to the next
};

/// The sizes of one attention problem. Q, O, dO, dQ are [batch, heads_q, seq_q, head_dim];
/// K, V, dK, dV are [batch, heads_kv, seq_kv, head_dim].
struct Problem {
  int batch = 1;      ///< ≥ 1
  int heads_q = 1;    ///< query heads, a multiple of heads_kv
  int heads_kv = 1;   ///< key and value heads; fewer than heads_q means grouped-query attention
  int seq_q = 1;      ///< queries a head, ≥ 1
  int seq_kv = 1;     ///< keys a head, ≥ 1
  int head_dim = 64;  ///< 32, 64 or 128
  DType dtype = DType::kF16;     ///< element type of every tensor but LSE
  bool causal = false;           ///< query i sees key j only if j ≤ i + seq_kv − seq_q
  float softmax_scale = 0.125f;  ///< finite and positive; usually 1/√head_dim
};

/// The tensors of one forward call. A row that sees no key gets O = 0 and LSE = −inf.
struct Forward {
  Tensor q;              ///< in, [batch, heads_q, seq_q, head_dim]
  Tensor k;              ///< in, [batch, heads_kv, seq_kv, head_dim]
  Tensor v;              ///< in, [batch, heads_kv, seq_kv, head_dim]
  Tensor o;              ///< out, [batch, heads_q, seq_q, head_dim]
  float* lse = nullptr;  ///< out, [batch, heads_q, seq_q], natural log, contiguous; may be null
  void* workspace = nullptr;  ///< scratch, 256-byte aligned; null: the library allocates it in
                              ///< stream order
  std::size_t workspace_bytes = 0;  ///< how much lies at `workspace`, workspace_bytes() or more
};

/// The tensors of one backward call. A null dq, dk or dv (data == nullptr) is not computed.
struct Backward {
  Tensor q;                         ///< in, [batch, heads_q, seq_q, head_dim]
  Tensor k;                         ///< in, [batch, heads_kv, seq_kv, head_dim]
  Tensor v;                         ///< in, [batch, heads_kv, seq_kv, head_dim]
  Tensor o;                         ///< in, the forward pass's output
  Tensor d_o;                       ///< in, gradient of the loss with respect to O
  Tensor dq;                        ///< out, [batch, heads_q, seq_q, head_dim]; data may be null
  Tensor dk;                        ///< out, [batch, heads_kv, seq_kv, head_dim]; data may be null
  Tensor dv;                        ///< out, [batch, heads_kv, seq_kv, head_dim]; data may be null
  const float* lse = nullptr;       ///< in, the forward pass's LSE, [batch, heads_q, seq_q]
  bool deterministic = true;        ///< ask for gradients that are the same to the bit in every run
  void* workspace = nullptr;        ///< as in Forward
  std::size_t workspace_bytes = 0;  ///< as in Forward
};

/// 1/√head_dim, the scale of the original paper.
inline float default_scale(int head_dim) { return 1.f / std::sqrt(static_cast<float>(head_dim)); }

/// A [batch, heads, seq, head_dim] tensor without gaps, starting at `data`. A stride beyond 64 bits
/// becomes the largest that is a multiple of 16, so that a call with it is refused with
/// SIZE_OVERFLOW.
inline Tensor contiguous(void* data, int heads, int seq, int head_dim) {
  const auto times = [](std::int64_t x, std::int64_t y) {
    std::int64_t product = 0;
    return __builtin_mul_overflow(x, y, &product)
               ? std::numeric_limits<std::int64_t>::max() & ~std::int64_t{15}
               : product;
  };
  const std::int64_t head_stride = times(seq, head_dim);
  return {data, times(heads, head_stride), head_stride, head_dim};
}

}  // namespace cuflash

#endif  // CUFLASH_PROBLEM_H_
