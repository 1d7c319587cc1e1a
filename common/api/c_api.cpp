// The C interface: structs that say their own size, over the C++ calls.
#include <cstddef>
#include <new>
#include <string>

#include "api/last_error.h"
#include "cuflash/stage.h"

namespace cuflash {
namespace {

using Error = FlashAttentionError;

constexpr std::uint32_t kLargestStruct = 4096;  // bytes; beyond it is no struct, but a wild size

// The C names have the values of the C++ ones.
static_assert(int(Error::UNKNOWN_STAGE) == CUFLASH_UNKNOWN_STAGE);
static_assert(int(Error::INVALID_DIMENSION) == CUFLASH_INVALID_DIMENSION);
static_assert(int(Error::DIMENSION_MISMATCH) == CUFLASH_DIMENSION_MISMATCH);
static_assert(int(Error::NULL_POINTER) == CUFLASH_NULL_POINTER);
static_assert(int(Error::CUDA_ERROR) == CUFLASH_CUDA_ERROR);
static_assert(int(Error::OUT_OF_MEMORY) == CUFLASH_OUT_OF_MEMORY);
static_assert(int(Error::UNSUPPORTED_HEAD_DIM) == CUFLASH_UNSUPPORTED_HEAD_DIM);
static_assert(int(Error::UNSUPPORTED_DTYPE) == CUFLASH_UNSUPPORTED_DTYPE);
static_assert(int(Error::INVALID_SCALE) == CUFLASH_INVALID_SCALE);
static_assert(int(Error::MISALIGNED) == CUFLASH_MISALIGNED);
static_assert(int(Error::SIZE_OVERFLOW) == CUFLASH_SIZE_OVERFLOW);
static_assert(int(Error::UNSUPPORTED_DEVICE) == CUFLASH_UNSUPPORTED_DEVICE);
static_assert(int(Error::UNSUPPORTED_BY_STAGE) == CUFLASH_UNSUPPORTED_BY_STAGE);
static_assert(int(DType::kF32) == CUFLASH_F32 && int(DType::kF16) == CUFLASH_F16 &&
              int(DType::kBF16) == CUFLASH_BF16);
static_assert(int(Pass::kForward) == CUFLASH_FORWARD && int(Pass::kBackward) == CUFLASH_BACKWARD);
// Programs are built against these layouts. None ends in padding, where a later field could hide.
static_assert(sizeof(cuflash_tensor) == 32 && sizeof(cuflash_problem) == 40 &&
              sizeof(cuflash_forward_args) == 152 && sizeof(cuflash_backward_args) == 280);

// ---- Structs of a caller ------------------------------------------------------------------------

// Bytes that an older library does not know must be 0: there a newer caller's fields would be.
template <class T>
bool asks_for_more(const T& given) {
  const char* bytes = reinterpret_cast<const char*>(&given);
  for (std::uint32_t n = sizeof(T); n < given.size; ++n) {
    if (bytes[n] != 0) return true;
  }
  return false;
}

// Is this a struct that can be read?
template <class T>
Support readable(const char* name, const T* given) {
  if (given == nullptr) return {Error::NULL_POINTER, std::string(name) + " is null"};
  const std::string size = std::string(name) + "'s size is " + std::to_string(given->size);
  const std::string known = std::to_string(sizeof(T)) + " bytes";
  if (given->size < sizeof(T)) {
    return {Error::INVALID_DIMENSION, size + "; it must be at least " + known};
  }
  if (given->size > kLargestStruct) {
    return {Error::INVALID_DIMENSION,
            size + "; it must be at most " + std::to_string(kLargestStruct) + " bytes"};
  }
  if (asks_for_more(*given)) {
    return {Error::INVALID_DIMENSION, size + ", and beyond the " + known +
                                          " that this library knows not all are 0: it is older "
                                          "than the caller's header"};
  }
  return {};
}

Support readable(int pass) {
  if (pass == CUFLASH_FORWARD || pass == CUFLASH_BACKWARD) return {};
  return {Error::UNSUPPORTED_BY_STAGE,
          "pass is " + std::to_string(pass) + ", neither forward (0) nor backward (1)"};
}

// ---- The same in C++ ---------------------------------------------------------------------------

Tensor in_cpp(const cuflash_tensor& t) {
  return {t.data, t.batch_stride, t.head_stride, t.row_stride};
}

Problem in_cpp(const cuflash_problem& p) {
  return {p.batch,    p.heads_q,      p.heads_kv,    p.seq_q,        p.seq_kv,
          p.head_dim, DType{p.dtype}, p.causal != 0, p.softmax_scale};
}

Forward in_cpp(const cuflash_forward_args& a) {
  return {in_cpp(a.q), in_cpp(a.k), in_cpp(a.v), in_cpp(a.o), a.lse, a.workspace};
}

Backward in_cpp(const cuflash_backward_args& a) {
  return {in_cpp(a.q),   in_cpp(a.k),          in_cpp(a.v),  in_cpp(a.o),
          in_cpp(a.d_o), in_cpp(a.dq),         in_cpp(a.dk), in_cpp(a.dv),
          a.lse,         a.deterministic != 0, a.workspace};
}

// ---- Calls -------------------------------------------------------------------------------------

int refuse(const Support& fault) { return int(refuse(fault.error, fault.reason)); }

// What f() returns, an error code. C knows no exceptions; the only one is a sentence that finds no
// memory.
template <class F>
int without_exceptions(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return int(refuse(Error::OUT_OF_MEMORY, "no host memory"));  // short: it needs none
  }
}

// One call, either pass.
template <class Args, class Run>
int call(const cuflash_problem* problem, const Args* args, Run run, const char* stage,
         cudaStream_t stream) {
  return without_exceptions([&] {
    if (const Support fit = readable("problem", problem); !fit) return refuse(fit);
    if (const Support fit = readable("args", args); !fit) return refuse(fit);
    return int(run(in_cpp(*problem), in_cpp(*args), stream, stage));
  });
}

// One question about a call: ask() has the pass and the problem in C++.
template <class Ask>
int question(int pass, const cuflash_problem* problem, Ask ask) {
  return without_exceptions([&] {
    if (const Support fit = readable(pass); !fit) return refuse(fit);
    if (const Support fit = readable("problem", problem); !fit) return refuse(fit);
    return ask(Pass{pass}, in_cpp(*problem));
  });
}

}  // namespace
}  // namespace cuflash

// ---- The C interface ---------------------------------------------------------------------------

int cuflash_forward(const cuflash_problem* problem, const cuflash_forward_args* args,
                    const char* stage, cudaStream_t stream) {
  return cuflash::call(problem, args, cuflash::forward, stage, stream);
}

int cuflash_backward(const cuflash_problem* problem, const cuflash_backward_args* args,
                     const char* stage, cudaStream_t stream) {
  return cuflash::call(problem, args, cuflash::backward, stage, stream);
}

int cuflash_check_support(int pass, const cuflash_problem* problem, const char* stage) {
  return cuflash::question(pass, problem, [&](cuflash::Pass p, const cuflash::Problem& sizes) {
    return int(cuflash::check_support(p, sizes, stage));
  });
}

size_t cuflash_workspace_bytes(int pass, const cuflash_problem* problem, const char* stage) {
  size_t bytes = 0;
  cuflash::question(pass, problem, [&](cuflash::Pass p, const cuflash::Problem& sizes) {
    bytes = cuflash::workspace_bytes(p, sizes, stage);
    return 0;
  });
  return bytes;
}

int cuflash_num_stages(void) { return int(cuflash::stages().size()); }

const char* cuflash_stage_name(int index) {
  const bool exists = index >= 0 && index < cuflash_num_stages();
  return exists ? cuflash::stages()[std::size_t(index)]->name : nullptr;
}

const char* cuflash_error_string(int error) {
  return cuflash::get_error_string(cuflash::FlashAttentionError{error});
}

const char* cuflash_last_error_message(void) { return cuflash::last_error_message(); }

int cuflash_version(void) { return CUFLASH_VERSION; }
