// The operators of noop_operators.cpp with a gradient in C++. The stable ABI has no gradients, so
// this library works only with the PyTorch that it was compiled for.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

namespace {

struct Attention : torch::autograd::Function<Attention> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& q, const at::Tensor& k,
                                                const at::Tensor& v) {
    at::Tensor o = at::empty_like(q);
    at::Tensor lse = q.new_empty({q.size(0), q.size(2), q.size(1)}, at::kFloat);
    context->save_for_backward({q, k, v, o, lse});
    context->mark_non_differentiable({lse});
    return {o, lse};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list&) {
    const auto saved = context->get_saved_variables();
    return {at::empty_like(saved[0]), at::empty_like(saved[1]), at::empty_like(saved[2])};
  }
};

std::tuple<at::Tensor, at::Tensor> in_cpp(const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, double, bool, std::int64_t,
                                          std::int64_t, bool, const std::optional<std::string>&) {
  const torch::autograd::variable_list results = Attention::apply(q, k, v);
  return {results[0], results[1]};
}

TORCH_LIBRARY(cuflash_noop_cpp, library) {
  library.def(
      "forward(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal, int window_left, "
      "int window_right, bool deterministic, str? stage) -> (Tensor, Tensor)",
      torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(in_cpp)));
}

}  // namespace
