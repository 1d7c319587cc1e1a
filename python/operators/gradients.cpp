// torch.ops.cuflash.attention: cuflash::forward with its gradient, both in C++. PyTorch's stable
// ABI has no gradients, so this library works only with the PyTorch that it was compiled for. For
// other versions the package has a torch.autograd.Function, in Python.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Options = std::vector<c10::IValue>;  // of both operators, after their tensors

// The operator's results for these tensors and options, and additional arguments.
torch::jit::Stack call(const c10::OperatorHandle& op, std::initializer_list<Tensor> tensors,
                       const Options& options, std::initializer_list<c10::IValue> more = {}) {
  torch::jit::Stack stack(tensors.begin(), tensors.end());
  stack.insert(stack.end(), options.begin(), options.end());
  stack.insert(stack.end(), more.begin(), more.end());
  op.callBoxed(stack);
  return stack;
}

c10::OperatorHandle named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

struct Attention : torch::autograd::Function<Attention> {
  static variable_list forward(AutogradContext* context, const Tensor& q, const Tensor& k,
                               const Tensor& v, const Options& options) {
    static const c10::OperatorHandle op = named("cuflash::forward");
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto results = call(op, {q, k, v}, options);
    const Tensor o = results[0].toTensor(), lse = results[1].toTensor();
    context->save_for_backward({q, k, v, o, lse});
    context->saved_data["options"] = c10::ivalue::Tuple::create(options);
    context->mark_non_differentiable({lse});
    context->set_materialize_grads(false);  // PyTorch would make one of zeros for LSE.
    return {o, lse};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const c10::OperatorHandle op = named("cuflash::backward");
    static const c10::OperatorHandle again = named("cuflash::backward_again");
    variable_list of_inputs(4);  // the last are the options
    if (!grads[0].defined()) return of_inputs;
    const variable_list saved = context->get_saved_variables();
    const Options& options = context->saved_data["options"].toTupleRef().elements().vec();
    c10::List<bool> wanted;
    for (int n = 0; n < 3; ++n) wanted.push_back(context->needs_input_grad(n));
    // With create_graph the operator's own gradient reports that there is no second derivative.
    std::optional<at::AutoDispatchBelowADInplaceOrView> guard;
    if (!at::GradMode::is_enabled()) guard.emplace();
    const auto called = [&](const c10::OperatorHandle& chosen) {
      return call(chosen, {grads[0], saved[0], saved[1], saved[2], saved[3], saved[4]}, options,
                  {wanted});
    };
    torch::jit::Stack results;
    try {
      results = called(op);
    } catch (...) {
      results = called(again);  // in Python, which finds the fault
    }
    const std::vector<Tensor> found = results[0].toTensorVector();
    auto next = found.begin();
    for (int n = 0; n < 3; ++n) {
      if (wanted[n]) of_inputs[n] = *next++;
    }
    return of_inputs;
  }
};

std::tuple<Tensor, Tensor> attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                     double softmax_scale, bool causal, std::int64_t window_left,
                                     std::int64_t window_right, bool deterministic,
                                     const std::optional<std::string>& stage) {
  const Options options = {softmax_scale, causal, window_left, window_right, deterministic, stage};
  const variable_list results = Attention::apply(q, k, v, options);
  return {results[0], results[1]};
}

TORCH_LIBRARY_FRAGMENT(cuflash, library) {
  library.def(
      "attention(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal, int window_left, "
      "int window_right, bool deterministic, str? stage) -> (Tensor, Tensor)",
      torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(attention)));
}

}  // namespace
