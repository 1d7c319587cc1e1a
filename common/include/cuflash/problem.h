/// @file problem.h
/// The formulas, the sizes of one attention problem and the tensors of one call.
///
/// Forward, for every batch b and query head h, with its KV head hk = h / (heads_q / heads_kv):
///
///     S = softmax_scale · Q Kᵀ,   P = softmax(S) row by row,   O = P V,   LSE_i = ln Σ_j exp(S_ij)
///
/// (Vaswani et al., "Attention Is All You Need", 2017, eq. 1; LSE as in Dao, "FlashAttention-2",
/// 2023, section 3.1). S_ij is −∞ where query i does not see key j; cuflash_problem defines this
/// mask. Backward, with dO given (FlashAttention, 2022, appendix B.2):
///
///     dV = Pᵀ dO,  dP = dO Vᵀ,  delta_i = Σ_d dO_id O_id,  dS = P ∘ (dP − delta),
///     dQ = softmax_scale · dS K,   dK = softmax_scale · dSᵀ Q
///
/// dK and dV are summed over the query heads that share a KV head.
///
/// Inputs must be finite, and so must softmax_scale · log₂e and its product with q · k in f32: a
/// tile gives a hidden key the weight 0, but 0 · ∞ is NaN. In f16 the tensor-core stages round dS
/// to f16, so |dS| must stay below 65,504 (scale dO down, as in mixed-precision training).
///
/// O is a weighted mean of rows of V, but rounding can lift |O| above the largest |V|: the
/// tensor-core stages round P to f16 or bf16 but divide by the sum of the unrounded P, and every
/// stage accumulates in f32. In f16 an O of 65,520 or more becomes ∞, so |V| · (1 + 2⁻¹¹ + seq_kv ·
/// 2⁻²³) must stay below 65,520: |V| at most 65,440 for up to 4,096 keys. In f32 and bf16 seq_kv ·
/// |V| must be at most 3.4 · 10³⁸, because the products with V are summed before the division.
///
/// An output must not overlap an input or another output.
#ifndef CUFLASH_PROBLEM_H_
#define CUFLASH_PROBLEM_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cuflash/c_api.h"
#include "cuflash/dtype.h"

/// FlashAttention: the API, and what a stage of the ladder is.
namespace cuflash {

/// Which of the two passes a call computes.
using Pass = cuflash_pass;

/// One tensor of a call.
using Tensor = cuflash_tensor;

/// The sizes and the mask of one attention problem; cuflash_problem documents each field. The
/// default is no window and the library's division of the keys.
///
/// @code{.cpp}
/// cuflash::Problem problem{2, 8, 2, 1024, 4096, 64, CUFLASH_BF16, true, 0.125f};
/// problem.window_left = 255;  // each query sees the key at its position and the 255 before it
/// @endcode
struct Problem : cuflash_problem {
  /// One head of one query and one key in f16, head_dim 64, without a mask.
  Problem() : Problem(1, 1, 1, 1, 1, 64, CUFLASH_F16, false, 0.125f) {}
  /// The sizes in the order of the struct.
  Problem(int batch_size, int num_heads_q, int num_heads_kv, int seq_len_q, int seq_len_kv, int dim,
          DType type, bool is_causal, float scale)
      : cuflash_problem{sizeof(cuflash_problem),
                        batch_size,
                        num_heads_q,
                        num_heads_kv,
                        seq_len_q,
                        seq_len_kv,
                        dim,
                        type,
                        is_causal,
                        scale,
                        -1,
                        -1,
                        0,
                        0,
                        0,
                        0,
                        0} {}
};

/// The tensors and arrays of one forward call, null by default; cuflash_forward_args documents
/// each.
struct Forward : cuflash_forward_args {
  /// No tensors.
  Forward() : Forward({}, {}, {}, {}) {}
  /// The tensors in the order of the struct; where `L` is null, no LSE is written.
  Forward(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O, float* L = nullptr)
      : cuflash_forward_args{sizeof(cuflash_forward_args),
                             Q,
                             K,
                             V,
                             O,
                             L,
                             nullptr,
                             0,
                             nullptr,
                             nullptr,
                             nullptr,
                             nullptr} {}
};

/// The tensors of one backward call, null by default; cuflash_backward_args documents each field.
/// `deterministic` is 1: set it to 0 to trade bitwise reproducibility for speed.
struct Backward : cuflash_backward_args {
  /// No tensors.
  Backward() : Backward({}, {}, {}, {}, {}, {}, {}, {}, nullptr) {}
  /// The tensors in the order of the struct.
  Backward(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O, const Tensor& dO,
           const Tensor& dQ, const Tensor& dK, const Tensor& dV, const float* L)
      : cuflash_backward_args{
            sizeof(cuflash_backward_args), 1, Q, K, V, O, dO, dQ, dK, dV, L, nullptr, 0} {}
};

/// Every valid head_dim, in ascending order. A stage may support fewer: supports() decides.
inline constexpr int kHeadDims[] = {32, 64, 96, 128, 256};

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
