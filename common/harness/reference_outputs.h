// The expected results of a stage: the oracle's, with the allowed errors.
#ifndef CUFLASH_HARNESS_REFERENCE_OUTPUTS_H_
#define CUFLASH_HARNESS_REFERENCE_OUTPUTS_H_

#include <memory>
#include <string>
#include <vector>

#include "harness/inputs.h"
#include "reference/score.h"

namespace cuflash::harness {

// One output tensor, [batch, heads, seq, width].
struct ReferenceTensor {
  std::string name;  // "O", "LSE", "dQ", "dK" or "dV"
  int heads = 1, seq = 1, width = 1;
  std::vector<double> values;  // of one period of heads (inputs.h); they repeat
  double limit = 0.;           // the largest error allowed
};

struct ReferenceOutputs {
  Inputs
      inputs;  // for the backward pass with O and LSE, as a forward pass without error leaves them
  std::vector<ReferenceTensor> tensors;
};

// The oracle's results for a problem, kept for the comparison with many stages. A stage is compared
// with the results for its own score (stage_score.h).
//
// The error of a tensor is the largest absolute error of its elements. Its limit is 2 times
// (gradients 3 times) the error of the plain implementation in the same precision, by the same
// measure; plus the rounding of the output, half a unit in the last place at the tensor's largest
// magnitude; plus the rounding of float dot products, which two correct implementations do in
// different orders: with e = 2^-23 and the largest lengths of rows,
//
//     S is off by e · softmax_scale · |q| |k|,   dP by e · |dO| |v|,
//
// and LSE, O and the gradients by the consequences of these. The last term matters where scores are
// large, and where a tensor is exactly 0. For f32 and N(0, 1) inputs the limits are fixed: O 1e-6
// for seq_kv >= 256 without mask or window and 3e-6 elsewhere; gradients 1e-5 of the tensor's
// largest magnitude, plus the rounding of float dot products.
std::shared_ptr<const ReferenceOutputs> reference_outputs(Pass pass, const Problem& problem,
                                                          const InputSource& source,
                                                          const reference::Score& score = {});

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_REFERENCE_OUTPUTS_H_
