// Compares a stage's outputs with the oracle's.
#ifndef CUFLASH_HARNESS_ACCURACY_H_
#define CUFLASH_HARNESS_ACCURACY_H_

#include <string>
#include <vector>

#include "harness/reference_outputs.h"
#include "harness/stage_call.h"

namespace cuflash::harness {

// One output tensor's accuracy.
struct TensorAccuracy {
  std::string name;   // "O", "LSE", "dQ", "dK" or "dV"
  double error = 0.;  // largest absolute error; infinite if a NaN or an infinity is misplaced
  double limit = 0.;  // largest error allowed
  bool ok = true;     // error <= limit, and limit is finite
  std::string worst;  // the worst element: "O[batch 0, head 1, row 5, column 3]"
  double got = 0., want = 0.;        // its value and the expected one
  std::size_t wrong = 0, total = 0;  // elements beyond the limit, and all
  int first_row = 0, last_row = 0;   // the first and last row with a wrong element
};

struct Accuracy {
  std::vector<TensorAccuracy> tensors;  // one for each output that was computed
  std::string damage;                   // a sentence if memory outside the outputs was written

  bool ok() const;
  // The tensor with the largest error, as a multiple of its limit.
  const TensorAccuracy& worst() const;
  // A sentence per fault; empty if ok().
  std::string failures() const;
};

Accuracy check_accuracy(const Outputs& outputs, const ReferenceOutputs& expected);

// Compares the tensors of both, bit for bit: a NaN equals itself, and -0 is not 0. Returns
// "O differs at element 5: 1 and 2", or nothing if they are the same.
std::string first_difference(const Outputs& a, const Outputs& b);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_ACCURACY_H_
