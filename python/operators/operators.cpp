// Both passes as PyTorch operators, torch.ops.cuflash.forward, forward_with_cache and backward,
// over PyTorch's stable ABI: one binary works with every PyTorch from 2.10 on, and with any Python.
// cuflash/ops.py documents their arguments and results.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "cuflash/c_api.h"

// Also part of PyTorch's C interface, in libtorch_cuda.so: a PyTorch without CUDA lacks it.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(
    std::int32_t device_index, void** stream);

namespace {

using torch::stable::Tensor;
using Stage = std::optional<std::string>;

// ---- The library -------------------------------------------------------------------------------

// The functions of a libcuflash_attn.so that are called here. Python chooses the library.
struct Library {
  decltype(&cuflash_forward) forward;
  decltype(&cuflash_backward) backward;
  decltype(&cuflash_workspace_bytes) workspace_bytes;
  decltype(&cuflash_last_error_message) last_error_message;
};

Library library_for_cuda, library_for_cpu;  // zero if there is none

// cuflash/ops.py turns this sentence into one of the package's exceptions.
void check(const Library& library, int error) {
  if (error == 0) return;
  throw std::runtime_error("cuflash error " + std::to_string(error) + ": " +
                           library.last_error_message());
}

// ---- From tensors to the library's arguments ---------------------------------------------------

// Refuses tensors that do not fit, with one sentence for all; cuflash/ops.py finds the wrong one.
void require(bool fits) {
  if (!fits) throw std::runtime_error("cuflash: the tensors do not fit together");
}

// A tensor's properties, read once, because every query is a call into PyTorch.
struct Seen {
  std::int64_t dims = 0;
  std::int64_t* sizes = nullptr;
  std::int64_t* strides = nullptr;
  std::int32_t dtype = 0, device_type = 0, device_index = 0;

  explicit Seen(const Tensor& tensor) {
    const AtenTensorHandle handle = tensor.get();
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(handle, &dims));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(handle, &sizes));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(handle, &strides));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(handle, &dtype));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(handle, &device_type));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(handle, &device_index));
  }

  bool is_cuda() const { return device_type == aoti_torch_device_type_cuda(); }
  bool same_device(const Seen& other) const {
    return device_type == other.device_type && device_index == other.device_index;
  }
  bool same_kind(const Seen& other) const { return dtype == other.dtype && same_device(other); }
  bool has_sizes(std::initializer_list<std::int64_t> expected) const {
    return dims == static_cast<std::int64_t>(expected.size()) &&
           std::equal(expected.begin(), expected.end(), sizes);
  }
};

struct DTypeOfBoth {
  std::int32_t (*of_torch)();
  cuflash_dtype ours;
  std::int64_t bytes;
};
constexpr DTypeOfBoth kDTypes[] = {{aoti_torch_dtype_float32, CUFLASH_F32, 4},
                                   {aoti_torch_dtype_float16, CUFLASH_F16, 2},
                                   {aoti_torch_dtype_bfloat16, CUFLASH_BF16, 2}};

const DTypeOfBoth& dtype_of(const Seen& tensor) {
  for (const DTypeOfBoth& dtype : kDTypes) {
    if (tensor.dtype == dtype.of_torch()) return dtype;
  }
  throw std::runtime_error("cuflash: the library does not support the tensors' dtype");
}

int narrow(std::int64_t size) {
  require(size >= std::numeric_limits<int>::min() && size <= std::numeric_limits<int>::max());
  return static_cast<int>(size);
}

// K and V have q's batch, unless an array chooses among theirs.
cuflash_problem problem_of(const Seen& q, const Seen& k, const Seen& v, bool chosen,
                           double softmax_scale, bool causal, std::int64_t window_left,
                           std::int64_t window_right) {
  require(q.dims == 4 && k.dims == 4 && q.same_kind(k) && q.same_kind(v));
  const std::int64_t kv_batches = (chosen ? k : q).sizes[0];
  for (const Seen* kv : {&k, &v}) {
    require(kv->has_sizes({kv_batches, k.sizes[1], k.sizes[2], q.sizes[3]}));
  }
  cuflash_problem p{};
  p.size = sizeof p;
  p.batch = narrow(q.sizes[0]);
  p.heads_q = narrow(q.sizes[2]);
  p.heads_kv = narrow(k.sizes[2]);
  p.seq_q = narrow(q.sizes[1]);
  p.seq_kv = narrow(k.sizes[1]);
  p.head_dim = narrow(q.sizes[3]);
  p.dtype = dtype_of(q).ours;
  p.causal = causal;
  p.softmax_scale = static_cast<float>(softmax_scale);
  p.window_left = narrow(window_left);
  p.window_right = narrow(window_right);
  return p;
}

// A new tensor without gaps, on the device of `like`.
Tensor empty(const Seen& like, std::int32_t dtype, std::initializer_list<std::int64_t> sizes) {
  std::int64_t strides[4] = {};
  std::int64_t step = 1;
  for (std::size_t n = sizes.size(); n-- > 0;) {
    strides[n] = step;
    step *= sizes.begin()[n];
  }
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<std::int64_t>(sizes.size()),
                                                  sizes.begin(), strides, dtype, like.device_type,
                                                  like.device_index, &made));
  return Tensor(made);
}

Tensor empty_like(const Seen& t) {
  return empty(t, t.dtype, {t.sizes[0], t.sizes[1], t.sizes[2], t.sizes[3]});
}

cuflash_tensor view(const Tensor& tensor) {
  const Seen seen(tensor);
  return {const_cast<void*>(tensor.const_data_ptr()), seen.strides[0], seen.strides[2],
          seen.strides[1]};
}

// Inputs for the library. The copies live as long as this object does.
class Inputs {
 public:
  // A view of the tensor, or of a copy if the library cannot read its layout.
  cuflash_tensor operator()(const Tensor& tensor, const Seen& seen) {
    constexpr std::int64_t kAlignment = 16;  // bytes, of a tensor's address and strides
    const std::int64_t multiple = kAlignment / dtype_of(seen).bytes;
    const void* const data = tensor.const_data_ptr();
    bool fits = seen.strides[3] == 1 && reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0;
    for (int n = 0; n < 3; ++n) {
      fits = fits && (seen.sizes[n] <= 1 || seen.strides[n] % multiple == 0);
    }
    if (fits) {
      return {const_cast<void*>(data), seen.strides[0], seen.strides[2], seen.strides[1]};
    }
    Tensor copy = empty_like(seen);
    torch::stable::copy_(copy, tensor);
    copies_.push_back(copy);
    return view(copy);
  }

  // An array with a number for each sequence, or null.
  const std::int32_t* operator()(const std::optional<Tensor>& array, const Seen& q) {
    if (!array) return nullptr;
    const Seen seen(*array);
    require(seen.same_device(q) && seen.dtype == aoti_torch_dtype_int32() &&
            seen.has_sizes({q.sizes[0]}));
    copies_.push_back(torch::stable::contiguous(*array));
    return static_cast<const std::int32_t*>(copies_.back().const_data_ptr());
  }

 private:
  std::vector<Tensor> copies_;
};

// ---- The calls ---------------------------------------------------------------------------------

// Calls function(problem, args, stage, stream) on the current stream of q's device, with a
// workspace from PyTorch.
template <class Function, class Args>
void queue(const Library& library, Function function, cuflash_pass pass,
           const cuflash_problem& problem, Args& args, const Stage& stage, const Seen& q) {
  const char* const name = stage ? stage->c_str() : nullptr;
  if (!q.is_cuda()) {  // The library allocates: PyTorch aligns to 64 bytes there, not 256.
    return check(library, function(&problem, &args, name, nullptr));
  }
  std::optional<torch::stable::accelerator::DeviceGuard> guard;
  if (torch::stable::accelerator::getCurrentDeviceIndex() != q.device_index) {
    guard.emplace(q.device_index);
  }
  std::optional<Tensor> workspace;
  if (const std::size_t bytes = library.workspace_bytes(pass, &problem, name); bytes > 0) {
    workspace = empty(q, aoti_torch_dtype_uint8(), {static_cast<std::int64_t>(bytes)});
    args.workspace = workspace->mutable_data_ptr();
    args.workspace_bytes = bytes;
  }
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(q.device_index, &stream));
  check(library, function(&problem, &args, name, static_cast<cudaStream_t>(stream)));
}

const Library& library_for(const Seen& tensor) {
  const Library& library = tensor.is_cuda() ? library_for_cuda : library_for_cpu;
  if (library.forward == nullptr) {
    throw std::runtime_error(
        "cuflash: no library computes on the tensors' device; cuflash.backend_info() says why");
  }
  return library;
}

// O and LSE, for arguments that hold the inputs.
std::tuple<Tensor, Tensor> forward_of(const Library& library, const cuflash_problem& problem,
                                      cuflash_forward_args& args, const Stage& stage,
                                      const Seen& q) {
  Tensor o = empty_like(q);
  Tensor lse = empty(q, aoti_torch_dtype_float32(), {q.sizes[0], q.sizes[2], q.sizes[1]});
  args.size = sizeof args;
  args.o = view(o);
  args.lse = static_cast<float*>(lse.mutable_data_ptr());
  queue(library, library.forward, CUFLASH_FORWARD, problem, args, stage, q);
  return {std::move(o), std::move(lse)};
}

std::tuple<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                   double softmax_scale, bool causal, std::int64_t window_left,
                                   std::int64_t window_right, bool /*deterministic*/,
                                   const Stage& stage) {
  const Seen of_q(q), of_k(k), of_v(v);
  const Library& library = library_for(of_q);
  const cuflash_problem problem =
      problem_of(of_q, of_k, of_v, false, softmax_scale, causal, window_left, window_right);
  Inputs input;
  cuflash_forward_args args{};
  args.q = input(q, of_q);
  args.k = input(k, of_k);
  args.v = input(v, of_v);
  return forward_of(library, problem, args, stage, of_q);
}

std::tuple<Tensor, Tensor> forward_with_cache(
    const Tensor& q, const Tensor& k_cache, const Tensor& v_cache,
    const std::optional<Tensor>& cache_seqlens, const std::optional<Tensor>& cache_batch_idx,
    const std::optional<Tensor>& cache_leftpad, double softmax_scale, bool causal,
    std::int64_t window_left, std::int64_t window_right, std::int64_t split_keys,
    std::int64_t num_splits, const Stage& stage) {
  const Seen of_q(q), of_k(k_cache), of_v(v_cache);
  const Library& library = library_for(of_q);
  cuflash_problem problem = problem_of(of_q, of_k, of_v, cache_batch_idx.has_value(), softmax_scale,
                                       causal, window_left, window_right);
  require(of_k.strides[3] == 1 && of_v.strides[3] == 1);
  problem.split_keys = narrow(split_keys);
  problem.num_splits = narrow(num_splits);
  Inputs input;
  cuflash_forward_args args{};
  args.q = input(q, of_q);
  args.k = view(k_cache);  // never a copy
  args.v = view(v_cache);
  args.seqused_k = input(cache_seqlens, of_q);
  args.kv_batch = input(cache_batch_idx, of_q);
  args.k_begin = input(cache_leftpad, of_q);
  return forward_of(library, problem, args, stage, of_q);
}

std::vector<Tensor> backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& o, const Tensor& lse, double softmax_scale, bool causal,
                             std::int64_t window_left, std::int64_t window_right,
                             bool deterministic, const Stage& stage,
                             const std::vector<bool>& wanted) {
  const Seen of_q(q), of_k(k), of_v(v), of_o(o), of_d_o(d_o), of_lse(lse);
  const Library& library = library_for(of_q);
  const cuflash_problem problem =
      problem_of(of_q, of_k, of_v, false, softmax_scale, causal, window_left, window_right);
  for (const Seen* x : {&of_o, &of_d_o}) {
    require(x->same_kind(of_q) &&
            x->has_sizes({of_q.sizes[0], of_q.sizes[1], of_q.sizes[2], of_q.sizes[3]}));
  }
  require(of_lse.same_device(of_q) && of_lse.dtype == aoti_torch_dtype_float32() &&
          of_lse.has_sizes({of_q.sizes[0], of_q.sizes[2], of_q.sizes[1]}));
  require(wanted.size() == 3);

  Inputs input;
  const Tensor lse_read = lse.is_contiguous() ? lse : torch::stable::contiguous(lse);
  cuflash_backward_args args{};
  args.size = sizeof args;
  args.deterministic = deterministic;
  args.q = input(q, of_q);
  args.k = input(k, of_k);
  args.v = input(v, of_v);
  args.o = input(o, of_o);
  args.d_o = input(d_o, of_d_o);
  args.lse = static_cast<float*>(const_cast<void*>(lse_read.const_data_ptr()));
  std::vector<Tensor> gradients;
  const auto add = [&](bool is_wanted, const Seen& of, cuflash_tensor& output) {
    if (!is_wanted) return;
    gradients.push_back(empty_like(of));
    output = view(gradients.back());
  };
  add(wanted[0], of_q, args.dq);
  add(wanted[1], of_k, args.dk);
  add(wanted[2], of_v, args.dv);
  queue(library, library.backward, CUFLASH_BACKWARD, problem, args, stage, of_q);
  return gradients;
}

}  // namespace

// Sets the library for tensors on "cuda", or otherwise on "cpu"; null if there is none. The package
// calls it once for each device, before the first call of an operator.
extern "C" __attribute__((visibility("default"))) void cuflash_operators_use(
    int is_cuda, const Library* library) {
  (is_cuda != 0 ? library_for_cuda : library_for_cpu) = library != nullptr ? *library : Library{};
}

STABLE_TORCH_LIBRARY(cuflash, library) {
  library.def(
      "forward(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal, int window_left, "
      "int window_right, bool deterministic, str? stage) -> (Tensor, Tensor)");
  library.def(
      "forward_with_cache(Tensor q, Tensor k_cache, Tensor v_cache, Tensor? cache_seqlens, Tensor? "
      "cache_batch_idx, Tensor? cache_leftpad, float softmax_scale, bool causal, int window_left, "
      "int window_right, int split_keys, int num_splits, str? stage) -> (Tensor, Tensor)");
  library.def(
      "backward(Tensor d_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, float "
      "softmax_scale, bool causal, int window_left, int window_right, bool deterministic, str? "
      "stage, bool[] wanted) -> Tensor[]");
}

STABLE_TORCH_LIBRARY_IMPL(cuflash, CPU, library) {
  library.impl("forward", TORCH_BOX(&forward));
  library.impl("forward_with_cache", TORCH_BOX(&forward_with_cache));
  library.impl("backward", TORCH_BOX(&backward));
}

STABLE_TORCH_LIBRARY_IMPL(cuflash, CUDA, library) {
  library.impl("forward", TORCH_BOX(&forward));
  library.impl("forward_with_cache", TORCH_BOX(&forward_with_cache));
  library.impl("backward", TORCH_BOX(&backward));
}
