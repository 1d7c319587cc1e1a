// The C interface, all that the library exports.
#include "cuflash/c_api.h"

#include <new>
#include <string>

#include "api/c_structs.h"
#include "api/dispatch.h"
#include "api/last_error.h"

namespace cuflash::api {
namespace {

using Error = FlashAttentionError;

// What f() returns, for C. That knows no exceptions; the only one is a sentence that finds no
// memory.
template <class F>
int without_exceptions(F&& f) {
  try {
    return int(f());
  } catch (const std::bad_alloc&) {
    return int(refuse(Error::OUT_OF_MEMORY, "no host memory"));  // short: it needs none
  }
}

// ---- The simple form ---------------------------------------------------------------------------

// The shape of a simple call: contiguous [batch, heads, seq, head_dim].
struct Shape {
  Problem problem;

  Shape(DType dtype, int batch, int heads, int seq, int head_dim, float scale, bool causal)
      : problem{batch, heads, heads, seq, seq, head_dim, dtype, causal, scale} {}

  // The tensors of a simple call are not const in Forward and Backward; no stage writes an input.
  Tensor operator()(const void* data) const {
    return contiguous(const_cast<void*>(data), problem.heads_q, problem.seq_q, problem.head_dim);
  }
};

// ---- The full form -----------------------------------------------------------------------------

Tensor in_cpp(const cuflash_tensor& t) {
  return {t.data, t.batch_stride, t.head_stride, t.row_stride};
}

Problem in_cpp(const cuflash_problem& p) {
  return {p.batch,    p.heads_q,      p.heads_kv,    p.seq_q,        p.seq_kv,
          p.head_dim, DType{p.dtype}, p.causal != 0, p.softmax_scale};
}

Forward in_cpp(const cuflash_forward_args& a) {
  return {in_cpp(a.q), in_cpp(a.k), in_cpp(a.v),      in_cpp(a.o),
          a.lse,       a.workspace, a.workspace_bytes};
}

Backward in_cpp(const cuflash_backward_args& a) {
  return {in_cpp(a.q),   in_cpp(a.k),          in_cpp(a.v),  in_cpp(a.o),
          in_cpp(a.d_o), in_cpp(a.dq),         in_cpp(a.dk), in_cpp(a.dv),
          a.lse,         a.deterministic != 0, a.workspace,  a.workspace_bytes};
}

// One call, either pass.
template <class Args, class Run>
int call(const cuflash_problem* problem, const Args* args, Run run, const char* stage,
         cudaStream_t stream) {
  return without_exceptions([&] {
    // A null struct comes before another's size.
    if (const Support fit = present("problem", problem); !fit) return refuse(fit);
    if (const Support fit = present("args", args); !fit) return refuse(fit);
    cuflash_problem p;
    Args a;
    if (const Support fit = read("problem", problem, p); !fit) return refuse(fit);
    if (const Support fit = read("args", args, a); !fit) return refuse(fit);
    return run(in_cpp(p), in_cpp(a), stream, stage);
  });
}

// ---- Questions ---------------------------------------------------------------------------------

Support known(int pass) {
  if (pass == CUFLASH_FORWARD || pass == CUFLASH_BACKWARD) return {};
  return {Error::UNSUPPORTED_BY_STAGE,
          "pass is " + std::to_string(pass) + ", neither forward (0) nor backward (1)"};
}

// One question about a call: which stage would run it. `answer` gets the stage and the problem
// where there is one.
template <class Answer>
int ask(int pass, const cuflash_problem* problem, const char* stage, Answer answer) {
  return without_exceptions([&] {
    cuflash_problem p;
    if (const Support fit = known(pass); !fit) return refuse(fit);
    if (const Support fit = present("problem", problem); !fit) return refuse(fit);
    if (const Support fit = read("problem", problem, p); !fit) return refuse(fit);
    const Choice choice = choose(Pass{pass}, in_cpp(p), stage);
    if (!choice.support) return refuse(choice.support);
    answer(*choice.stage, in_cpp(p));
    return succeed();
  });
}

}  // namespace
}  // namespace cuflash::api

// ---- The C interface ---------------------------------------------------------------------------

using namespace cuflash;

// One pair for each element type.
#define CUFLASH_SIMPLE_FORM(suffix, T, dtype)                                                      \
  int cuflash_attention_forward_##suffix(const T* Q, const T* K, const T* V, T* O, float* L,       \
                                         int batch_size, int num_heads, int seq_len, int head_dim, \
                                         float scale, bool causal, cudaStream_t stream) {          \
    const api::Shape t(dtype, batch_size, num_heads, seq_len, head_dim, scale, causal);            \
    return api::without_exceptions([&] {                                                           \
      return api::forward(t.problem, {t(Q), t(K), t(V), t(O), L}, stream, nullptr);                \
    });                                                                                            \
  }                                                                                                \
  int cuflash_attention_backward_##suffix(                                                         \
      const T* Q, const T* K, const T* V, const T* O, const float* L, const T* dO, T* dQ, T* dK,   \
      T* dV, int batch_size, int num_heads, int seq_len, int head_dim, float scale, bool causal,   \
      cudaStream_t stream) {                                                                       \
    const api::Shape t(dtype, batch_size, num_heads, seq_len, head_dim, scale, causal);            \
    return api::without_exceptions([&] {                                                           \
      return api::backward(t.problem,                                                              \
                           {t(Q), t(K), t(V), t(O), t(dO), t(dQ), t(dK), t(dV), L, true}, stream,  \
                           nullptr);                                                               \
    });                                                                                            \
  }

CUFLASH_SIMPLE_FORM(f32, float, DType::kF32)
CUFLASH_SIMPLE_FORM(f16, void, DType::kF16)
CUFLASH_SIMPLE_FORM(bf16, void, DType::kBF16)

#undef CUFLASH_SIMPLE_FORM

int cuflash_forward(const cuflash_problem* problem, const cuflash_forward_args* args,
                    const char* stage, cudaStream_t stream) {
  return api::call(problem, args, api::forward, stage, stream);
}

int cuflash_backward(const cuflash_problem* problem, const cuflash_backward_args* args,
                     const char* stage, cudaStream_t stream) {
  return api::call(problem, args, api::backward, stage, stream);
}

int cuflash_check_support(int pass, const cuflash_problem* problem, const char* stage) {
  return api::ask(pass, problem, stage, [](const Stage&, const Problem&) {});
}

const char* cuflash_chosen_stage(int pass, const cuflash_problem* problem, const char* stage) {
  const char* name = nullptr;
  api::ask(pass, problem, stage, [&](const Stage& chosen, const Problem&) { name = chosen.name; });
  return name;
}

size_t cuflash_workspace_bytes(int pass, const cuflash_problem* problem, const char* stage) {
  size_t bytes = 0;
  api::ask(pass, problem, stage, [&](const Stage& chosen, const Problem& p) {
    bytes = chosen.workspace_bytes(Pass{pass}, p);
  });
  return bytes;
}

int cuflash_num_stages() { return int(stages().size()); }

const char* cuflash_stage_name(int index) {
  const bool exists = index >= 0 && index < cuflash_num_stages();
  return exists ? stages()[std::size_t(index)]->name : nullptr;
}

const char* cuflash_backend() {
#ifdef CUFLASH_SIMT
  return "simt";
#else
  return "cuda";
#endif
}

int cuflash_version() { return CUFLASH_VERSION; }
