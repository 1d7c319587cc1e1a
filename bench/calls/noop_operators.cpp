// Operators with attention's signature that compute nothing, over PyTorch's stable ABI like the
// package's operators. Their time is PyTorch's own cost of a call.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace {

using torch::stable::Tensor;
using Stage = std::optional<std::string>;

std::tuple<Tensor, Tensor> forward(const Tensor& q, const Tensor&, const Tensor&, double, bool,
                                   std::int64_t, std::int64_t, bool, const Stage&) {
  const std::array<std::int64_t, 3> rows = {q.size(0), q.size(2), q.size(1)};
  return {torch::stable::new_empty(q, q.sizes()),
          torch::stable::new_empty(q, rows, torch::headeronly::ScalarType::Float)};
}

std::vector<Tensor> backward(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor&, const Tensor&, double, bool, std::int64_t, std::int64_t,
                             bool, const Stage&, const std::vector<bool>&) {
  return {torch::stable::new_empty(q, q.sizes()), torch::stable::new_empty(k, k.sizes()),
          torch::stable::new_empty(v, v.sizes())};
}

#define CUFLASH_OPTIONS                                                                       \
  "float softmax_scale, bool causal, int window_left, int window_right, bool deterministic, " \
  "str? stage"

STABLE_TORCH_LIBRARY(cuflash_noop, library) {
  for (const char* name : {"forward", "forward_registered"}) {
    library.def((std::string(name) + "(Tensor q, Tensor k, Tensor v, " CUFLASH_OPTIONS
                                     ") -> (Tensor, Tensor)")
                    .c_str());
  }
  library.def(
      "backward(Tensor d_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, " CUFLASH_OPTIONS
      ", bool[] wanted) -> Tensor[]");
}

STABLE_TORCH_LIBRARY_IMPL(cuflash_noop, CUDA, library) {
  library.impl("forward", TORCH_BOX(&forward));
  library.impl("forward_registered", TORCH_BOX(&forward));
  library.impl("backward", TORCH_BOX(&backward));
}

}  // namespace
