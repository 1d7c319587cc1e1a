/// @file plain.h
/// The plain implementation in the precision of the kernels. Its error against the oracle is the
/// yardstick: a kernel's error may be twice as large in the forward pass, three times in gradients.
///
/// All sums and exponentials are float, in the order of the indices. What a kernel hands to a
/// tensor core is rounded to the dtype first: P before P V and Pᵀ dO, dS before dS K and dSᵀ Q.
/// Results are rounded to the dtype. For f32 no rounding takes place. P is the softmax itself,
/// normalised.
///
/// Arrays are contiguous, in the shapes of reference.h, as floats that are already values of the
/// dtype. An array of the wrong size throws std::invalid_argument.
#ifndef CUFLASH_REFERENCE_PLAIN_H_
#define CUFLASH_REFERENCE_PLAIN_H_

#include <vector>

#include "cuflash/problem.h"
#include "reference/round.h"
#include "reference/score.h"

namespace cuflash::reference {

/// The results of the forward pass.
struct PlainOutput {
  std::vector<float> o;    ///< like Q, values of the dtype
  std::vector<float> lse;  ///< [batch, heads_q, seq_q], never rounded
};

/// The results of the backward pass, values of the dtype.
struct PlainGradients {
  std::vector<float> dq;  ///< like Q
  std::vector<float> dk;  ///< like K
  std::vector<float> dv;  ///< like V
};

/// O = softmax(scale · Q Kᵀ) V and LSE. `round` is the rounding of the dtype (round.h); `score` is
/// the same as the oracle's (reference.h).
PlainOutput plain_forward(const Problem& problem, const std::vector<float>& q,
                          const std::vector<float>& k, const std::vector<float>& v, Round round,
                          const Score& score = {});

/// dQ, dK and dV. `forward` holds O and LSE as the backward pass is given them: what
/// plain_forward() gave, or what a kernel gave.
PlainGradients plain_backward(const Problem& problem, const std::vector<float>& q,
                              const std::vector<float>& k, const std::vector<float>& v,
                              const PlainOutput& forward, const std::vector<float>& d_o,
                              Round round, const Score& score = {});

}  // namespace cuflash::reference

#endif  // CUFLASH_REFERENCE_PLAIN_H_
