/// @file reference.h
/// The oracle: attention forward and backward in double, on the host, independent of any kernel.
///
/// Arrays are contiguous and in double: Q, O, dO, dQ [batch, heads_q, seq_q, head_dim]; K, V, dK,
/// dV [batch, heads_kv, seq_kv, head_dim]; LSE and delta [batch, heads_q, seq_q]. The equations
/// are in cuflash/problem.h; sources are Vaswani et al., "Attention Is All You Need" (2017), eq.
/// 1, and Dao et al., "FlashAttention" (2022), appendix B. A query that sees no key gets O = 0, LSE
/// = −inf and dQ = 0, and adds nothing to dK and dV. Any head_dim ≥ 1 works, and dtype is not read.
/// An array of the wrong size throws std::invalid_argument. `score` is for stages that compute
/// another attention on purpose: it maps softmax_scale · q_i · k_j to S_ij.
///
/// Whole tensors cost O(B·H·Sq·Skv·D). For large problems there are samples: some rows of O, LSE
/// and dQ, some rows of dK and dV, each at the cost of one row or column of the score matrix.
#ifndef CUFLASH_REFERENCE_REFERENCE_H_
#define CUFLASH_REFERENCE_REFERENCE_H_

#include <vector>

#include "cuflash/problem.h"
#include "reference/score.h"

namespace cuflash::reference {

/// A tensor's elements, the last dimension fastest.
using Array = std::vector<double>;

/// The results of the forward pass.
struct Output {
  Array o;    ///< like Q
  Array lse;  ///< LSE_i = ln Σ_j exp(S_ij)
};

/// The results of the backward pass.
struct Gradients {
  Array dq;  ///< like Q
  Array dk;  ///< like K
  Array dv;  ///< like V
};

/// O = softmax(scale · Q Kᵀ) V and LSE, every row.
Output attention_forward(const Problem& problem, const Array& q, const Array& k, const Array& v,
                         const Score& score = {});

/// delta_i = Σ_d dO_id O_id, every row ("D" in FlashAttention, appendix B.2, eq. 4).
Array attention_delta(const Problem& problem, const Array& o, const Array& d_o);

/// dQ, dK and dV, every row. `forward` is what attention_forward() gave for the same Q, K, V.
Gradients attention_backward(const Problem& problem, const Array& q, const Array& k, const Array& v,
                             const Output& forward, const Array& d_o, const Score& score = {});

/// One row of a tensor: `row` is a query for O, LSE and dQ, and a key for dK and dV.
struct Place {
  int batch, head, row;
};

/// Rows of the forward pass and of dQ; entry n belongs to place n.
struct QuerySample {
  Array o;    ///< [places, head_dim]
  Array lse;  ///< [places]
  Array dq;   ///< [places, head_dim]; empty where dO was not given
};

/// O, LSE and dQ of the given (batch, query head, query) places, from Q, K, V and dO alone. An
/// empty `d_o` leaves dQ out. O(Skv·D) per place.
QuerySample attention_queries(const Problem& problem, const Array& q, const Array& k,
                              const Array& v, const Array& d_o, const std::vector<Place>& places);

/// Rows of dK and dV; entry n belongs to place n.
struct KeySample {
  Array dk;  ///< [places, head_dim]
  Array dv;  ///< [places, head_dim]
};

/// dK and dV of the given (batch, KV head, key) places. O(group·Sq·D) per place.
///
/// A key's gradient needs LSE and delta of every query that sees it, and those cost a whole forward
/// pass. The caller passes them in: from attention_forward() and attention_delta() if that is
/// affordable, and otherwise from the kernel under test (its LSE, and the delta of its O), after
/// attention_queries() has confirmed a sample of both.
KeySample attention_keys(const Problem& problem, const Array& q, const Array& k, const Array& v,
                         const Array& d_o, const Array& lse, const Array& delta,
                         const std::vector<Place>& places);

}  // namespace cuflash::reference

#endif  // CUFLASH_REFERENCE_REFERENCE_H_
