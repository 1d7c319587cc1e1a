// Both passes as PyTorch operators, torch.ops.cuflash.forward and torch.ops.cuflash.backward, over
// PyTorch's stable ABI: one binary serves every PyTorch from 2.10 on, and any Python. What they
// take and return is documented in cuflash/ops.py, which loads this file.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "cuflash/c_api.h"

// Of PyTorch's C interface too, in libtorch_cuda.so: a PyTorch without CUDA lacks it.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(
    std::int32_t device_index, void** stream);

namespace {

using torch::headeronly::DeviceType;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Stage = std::optional<std::string>;

// ---- The library -------------------------------------------------------------------------------

// What is called of a libcuflash_attn.so. Which one, Python has decided.
struct Library {
  decltype(&cuflash_forward) forward;
  decltype(&cuflash_backward) backward;
  decltype(&cuflash_workspace_bytes) workspace_bytes;
  decltype(&cuflash_last_error_message) last_error_message;
};

Library library_for_cuda, library_for_cpu;  // zero where there is none

const Library& library_for(const Tensor& tensor) {
  const Library& library = tensor.is_cuda() ? library_for_cuda : library_for_cpu;
  if (library.forward == nullptr) throw std::runtime_error("cuflash: no library computes there");
  return library;
}

// cuflash/ops.py makes an exception of the package's own of this sentence.
void check(const Library& library, int error) {
  if (error == 0) return;
  throw std::runtime_error("cuflash error " + std::to_string(error) + ": " +
                           library.last_error_message());
}

// ---- From tensors to the library's arguments ---------------------------------------------------

// What does not fit is refused here with one sentence; cuflash/ops.py finds out what it was.
void require(bool fits) {
  if (!fits) throw std::runtime_error("cuflash: the tensors do not fit together");
}

cuflash_dtype dtype_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      return CUFLASH_F32;
    case ScalarType::Half:
      return CUFLASH_F16;
    case ScalarType::BFloat16:
      return CUFLASH_BF16;
    default:
      throw std::runtime_error("cuflash: the tensors' dtype is none of the library's");
  }
}

int narrow(std::int64_t size) {
  require(size >= std::numeric_limits<int>::min() && size <= std::numeric_limits<int>::max());
  return static_cast<int>(size);
}

bool same_kind(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_cuda() == b.is_cuda() &&
         a.get_device_index() == b.get_device_index();
}

bool same_sizes(const Tensor& a, const Tensor& b) {
  return a.dim() == 4 && b.dim() == 4 && a.size(0) == b.size(0) && a.size(1) == b.size(1) &&
         a.size(2) == b.size(2) && a.size(3) == b.size(3);
}

cuflash_problem problem_of(const Tensor& q, const Tensor& k, const Tensor& v, double softmax_scale,
                           bool causal, std::int64_t window_left, std::int64_t window_right) {
  require(q.dim() == 4 && same_sizes(k, v) && k.size(0) == q.size(0) && k.size(3) == q.size(3) &&
          same_kind(q, k) && same_kind(q, v));
  cuflash_problem p{};
  p.size = sizeof p;
  p.batch = narrow(q.size(0));
  p.heads_q = narrow(q.size(2));
  p.heads_kv = narrow(k.size(2));
  p.seq_q = narrow(q.size(1));
  p.seq_kv = narrow(k.size(1));
  p.head_dim = narrow(q.size(3));
  p.dtype = dtype_of(q);
  p.causal = causal;
  p.softmax_scale = static_cast<float>(softmax_scale);
  p.window_left = narrow(window_left);
  p.window_right = narrow(window_right);
  return p;
}

// The tensor, or a copy of it where the library could not read it as it lies.
Tensor usable(const Tensor& tensor) {
  constexpr std::int64_t kAlignment = 16;  // bytes, of a tensor's address and strides
  const std::int64_t multiple = kAlignment / tensor.element_size();
  bool fits = tensor.stride(3) == 1 &&
              reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % kAlignment == 0;
  for (int n = 0; n < 3; ++n) {
    fits = fits && (tensor.size(n) <= 1 || tensor.stride(n) % multiple == 0);
  }
  if (fits) return tensor;
  Tensor copy = torch::stable::new_empty(tensor, tensor.sizes());
  return torch::stable::copy_(copy, tensor);
}

cuflash_tensor view(const Tensor& tensor) {
  return {const_cast<void*>(tensor.const_data_ptr()), tensor.stride(0), tensor.stride(2),
          tensor.stride(1)};
}

// ---- The calls ---------------------------------------------------------------------------------

// Calls function(problem, args, stage, stream) on the stream that is current on q's device, with a
// workspace from PyTorch.
template <class Function, class Args>
void queue(const Library& library, Function function, cuflash_pass pass,
           const cuflash_problem& problem, Args& args, const Stage& stage, const Tensor& q) {
  const char* const name = stage ? stage->c_str() : nullptr;
  if (!q.is_cuda()) {  // The library allocates: PyTorch aligns to 64 bytes there, not 256.
    return check(library, function(&problem, &args, name, nullptr));
  }
  const int device = q.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);
  const std::size_t bytes = library.workspace_bytes(pass, &problem, name);
  std::optional<Tensor> workspace;
  if (bytes > 0) {
    const std::array<std::int64_t, 1> size = {static_cast<std::int64_t>(bytes)};
    workspace = torch::stable::new_empty(q, size, ScalarType::Byte);
    args.workspace = workspace->mutable_data_ptr();
    args.workspace_bytes = bytes;
  }
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  check(library, function(&problem, &args, name, static_cast<cudaStream_t>(stream)));
}

std::tuple<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                   double softmax_scale, bool causal, std::int64_t window_left,
                                   std::int64_t window_right, bool /*deterministic*/,
                                   const Stage& stage) {
  const Library& library = library_for(q);
  const cuflash_problem problem =
      problem_of(q, k, v, softmax_scale, causal, window_left, window_right);
  const Tensor q_read = usable(q), k_read = usable(k), v_read = usable(v);
  Tensor o = torch::stable::new_empty(q, q.sizes());
  const std::array<std::int64_t, 3> rows = {q.size(0), q.size(2), q.size(1)};
  Tensor lse = torch::stable::new_empty(q, rows, ScalarType::Float);

  cuflash_forward_args args{};
  args.size = sizeof args;
  args.q = view(q_read);
  args.k = view(k_read);
  args.v = view(v_read);
  args.o = view(o);
  args.lse = static_cast<float*>(lse.mutable_data_ptr());
  queue(library, library.forward, CUFLASH_FORWARD, problem, args, stage, q);
  return {std::move(o), std::move(lse)};
}

std::vector<Tensor> backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& o, const Tensor& lse, double softmax_scale, bool causal,
                             std::int64_t window_left, std::int64_t window_right,
                             bool deterministic, const Stage& stage,
                             const std::vector<bool>& wanted) {
  const Library& library = library_for(q);
  const cuflash_problem problem =
      problem_of(q, k, v, softmax_scale, causal, window_left, window_right);
  require(same_sizes(o, q) && same_kind(o, q) && same_sizes(d_o, q) && same_kind(d_o, q));
  require(lse.dim() == 3 && lse.size(0) == q.size(0) && lse.size(1) == q.size(2) &&
          lse.size(2) == q.size(1) && lse.scalar_type() == ScalarType::Float &&
          lse.is_cuda() == q.is_cuda() && lse.get_device_index() == q.get_device_index());
  require(wanted.size() == 3);

  const Tensor q_read = usable(q), k_read = usable(k), v_read = usable(v), o_read = usable(o),
               d_o_read = usable(d_o);
  const Tensor lse_read = torch::stable::contiguous(lse);
  cuflash_backward_args args{};
  args.size = sizeof args;
  args.deterministic = deterministic;
  args.q = view(q_read);
  args.k = view(k_read);
  args.v = view(v_read);
  args.o = view(o_read);
  args.d_o = view(d_o_read);
  args.lse = static_cast<float*>(const_cast<void*>(lse_read.const_data_ptr()));
  std::vector<Tensor> gradients;
  const auto add = [&](bool is_wanted, const Tensor& of, cuflash_tensor& output) {
    if (!is_wanted) return;
    gradients.push_back(torch::stable::new_empty(of, of.sizes()));
    output = view(gradients.back());
  };
  add(wanted[0], q, args.dq);
  add(wanted[1], k, args.dk);
  add(wanted[2], v, args.dv);
  queue(library, library.backward, CUFLASH_BACKWARD, problem, args, stage, q);
  return gradients;
}

}  // namespace

// The library for tensors on "cuda", or else on "cpu"; null where there is none. cuflash/ops.py
// calls it once for each, before the first call of an operator.
extern "C" __attribute__((visibility("default"))) void cuflash_operators_use(
    int is_cuda, const Library* library) {
  (is_cuda != 0 ? library_for_cuda : library_for_cpu) = library != nullptr ? *library : Library{};
}

STABLE_TORCH_LIBRARY(cuflash, library) {
  library.def(
      "forward(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal, int window_left, "
      "int window_right, bool deterministic, str? stage) -> (Tensor, Tensor)");
  library.def(
      "backward(Tensor d_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, float "
      "softmax_scale, bool causal, int window_left, int window_right, bool deterministic, str? "
      "stage, bool[] wanted) -> Tensor[]");
}

STABLE_TORCH_LIBRARY_IMPL(cuflash, CPU, library) {
  library.impl("forward", TORCH_BOX(&forward));
  library.impl("backward", TORCH_BOX(&backward));
}

STABLE_TORCH_LIBRARY_IMPL(cuflash, CUDA, library) {
  library.impl("forward", TORCH_BOX(&forward));
  library.impl("backward", TORCH_BOX(&backward));
}
