// The inputs of the stages' tests. Gaussian inputs hide bugs, so there are other kinds.
#ifndef CUFLASH_HARNESS_INPUTS_H_
#define CUFLASH_HARNESS_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cuflash/problem.h"

namespace cuflash::harness {

enum class InputKind {
  kGaussian,  // N(0, 1)
  kPeaky,     // N(0, 1) with three outliers x20 in each row of Q, K and V
  kAllEqual,  // every element the same: a uniform softmax
  kLargeQ,    // Q x100: exp overflows unless the row's maximum is subtracted first
  kOneHotDO,  // one element of dO per head is 1, the others 0
  kReal,      // activations of a real model, from files; dO is N(0, 1)
  kSharedKV,  // N(0, 1); K and V are the same in every batch and head
};

inline constexpr const char* kInputNames[] = {"gaussian", "peaky", "allequal", "largeq",
                                              "onehot",   "real",  "sharedkv"};
inline const char* input_name(InputKind kind) { return kInputNames[static_cast<int>(kind)]; }

// Values are rounded to the problem's dtype and held as floats, in [batch, heads, seq, head_dim]
// order without gaps. `o` and `lse` are inputs of the backward pass: ReferenceOutputs fills them.
struct Inputs {
  std::vector<float> q, k, v, d_o;
  std::vector<float> o, lse;
};

// The argument of make_inputs(). Equal sources give equal inputs on every machine.
struct InputSource {
  InputKind kind = InputKind::kGaussian;
  std::uint64_t seed = 1;
  std::string directory = CUFLASH_SOURCE_DIR "/bench/data";  // of q.npy, k.npy, v.npy, for kReal
};

// Groups of heads (a KV head and its query heads) repeat in large problems, so that the oracle does
// not compute all of them: group n of [batch, heads_kv] equals group n % period. Returns the
// problem of one period, with batch 1, or the whole problem if it is small.
Problem one_period(const Problem& problem, InputKind kind);

// Repeats the inputs of one period until they fill the problem. An empty tensor stays empty.
void repeat_inputs(const Problem& problem, Inputs& inputs);

// kReal takes the first heads and rows of the files, and throws if they have fewer than the
// problem.
Inputs make_inputs(const Problem& problem, const InputSource& source);

// The whole problem in the files of a directory. Throws if the library does not support it.
Problem real_problem(const std::string& directory, DType dtype, bool causal);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_INPUTS_H_
