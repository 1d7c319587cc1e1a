// The C interface: the only functions that the library exports.
#include "cuflash/c_api.h"

#include <new>
#include <string>

#include "api/c_structs.h"
#include "api/dispatch.h"
#include "api/last_error.h"

namespace cuflash::api {
namespace {

using Error = FlashAttentionError;

// Calls f() and converts exceptions to error codes. Only building a message can throw.
template <class F>
int without_exceptions(F&& f) {
  try {
    return int(f());
  } catch (const std::bad_alloc&) {
    return int(refuse(Error::OUT_OF_MEMORY, "no host memory"));  // short: no allocation
  }
}

// ---- The simple form ---------------------------------------------------------------------------

// The arguments of a simple call: contiguous tensors [batch, heads, seq, head_dim] of one shape.
struct SimpleCall {
  Problem problem;

  SimpleCall(DType dtype, int batch, int heads, int seq, int head_dim, float scale, bool causal) {
    problem.batch = batch;
    problem.heads_q = problem.heads_kv = heads;
    problem.seq_q = problem.seq_kv = seq;
    problem.head_dim = head_dim;
    problem.dtype = dtype;
    problem.causal = causal;
    problem.softmax_scale = scale;
  }

  // Forward and Backward hold no pointers to const, but no stage writes an input.
  Tensor tensor(const void* data) const {
    return contiguous(const_cast<void*>(data), problem.heads_q, problem.seq_q, problem.head_dim);
  }

  int forward(const void* Q, const void* K, const void* V, void* O, float* L,
              cudaStream_t stream) const {
    const Forward args(tensor(Q), tensor(K), tensor(V), tensor(O), L);
    return without_exceptions([&] { return api::forward(problem, args, stream, nullptr); });
  }

  int backward(const void* Q, const void* K, const void* V, const void* O, const float* L,
               const void* dO, void* dQ, void* dK, void* dV, cudaStream_t stream) const {
    const Backward args(tensor(Q), tensor(K), tensor(V), tensor(O), tensor(dO), tensor(dQ),
                        tensor(dK), tensor(dV), L);
    return without_exceptions([&] { return api::backward(problem, args, stream, nullptr); });
  }
};

// ---- The full form -----------------------------------------------------------------------------

// One call, either pass.
template <class Args, class Given, class Run>
int call(const cuflash_problem* problem, const Given* args, Run run, const char* stage,
         cudaStream_t stream) {
  return without_exceptions([&] {
    // Report a null struct before another struct's size.
    if (const Support fit = present("problem", problem); !fit) return refuse(fit);
    if (const Support fit = present("args", args); !fit) return refuse(fit);
    Problem p;
    Args a;
    if (const Support fit = read<cuflash_problem>("problem", problem, p); !fit) return refuse(fit);
    if (const Support fit = read<Given>("args", args, a); !fit) return refuse(fit);
    return run(p, a, stream, stage);
  });
}

// ---- Support, stages and errors ----------------------------------------------------------------

Support known(int pass) {
  if (pass == CUFLASH_FORWARD || pass == CUFLASH_BACKWARD) return {};
  return {Error::UNSUPPORTED_BY_STAGE,
          "pass is " + std::to_string(pass) + ", neither forward (0) nor backward (1)"};
}

// Answers a query about a call. If a stage would run the call, `answer` receives that stage and the
// problem.
template <class Answer>
int query(int pass, const cuflash_problem* problem, const char* stage, Answer answer) {
  return without_exceptions([&] {
    Problem p;
    if (const Support fit = known(pass); !fit) return refuse(fit);
    if (const Support fit = present("problem", problem); !fit) return refuse(fit);
    if (const Support fit = read<cuflash_problem>("problem", problem, p); !fit) return refuse(fit);
    const Choice choice = choose(Pass{pass}, p, stage);
    if (!choice.support) return refuse(choice.support);
    answer(*choice.stage, p);
    return succeed();
  });
}

}  // namespace
}  // namespace cuflash::api

// ---- The C interface ---------------------------------------------------------------------------

using namespace cuflash;

// One pair of functions per element type.
#define CUFLASH_SIMPLE_FORM(suffix, T, dtype)                                                      \
  int cuflash_attention_forward_##suffix(const T* Q, const T* K, const T* V, T* O, float* L,       \
                                         int batch_size, int num_heads, int seq_len, int head_dim, \
                                         float scale, bool causal, cudaStream_t stream) {          \
    return api::SimpleCall(dtype, batch_size, num_heads, seq_len, head_dim, scale, causal)         \
        .forward(Q, K, V, O, L, stream);                                                           \
  }                                                                                                \
  int cuflash_attention_backward_##suffix(                                                         \
      const T* Q, const T* K, const T* V, const T* O, const float* L, const T* dO, T* dQ, T* dK,   \
      T* dV, int batch_size, int num_heads, int seq_len, int head_dim, float scale, bool causal,   \
      cudaStream_t stream) {                                                                       \
    return api::SimpleCall(dtype, batch_size, num_heads, seq_len, head_dim, scale, causal)         \
        .backward(Q, K, V, O, L, dO, dQ, dK, dV, stream);                                          \
  }

CUFLASH_SIMPLE_FORM(f32, float, CUFLASH_F32)
CUFLASH_SIMPLE_FORM(f16, void, CUFLASH_F16)
CUFLASH_SIMPLE_FORM(bf16, void, CUFLASH_BF16)

#undef CUFLASH_SIMPLE_FORM

int cuflash_forward(const cuflash_problem* problem, const cuflash_forward_args* args,
                    const char* stage, cudaStream_t stream) {
  return api::call<Forward>(problem, args, api::forward, stage, stream);
}

int cuflash_backward(const cuflash_problem* problem, const cuflash_backward_args* args,
                     const char* stage, cudaStream_t stream) {
  return api::call<Backward>(problem, args, api::backward, stage, stream);
}

int cuflash_check_support(int pass, const cuflash_problem* problem, const char* stage) {
  return api::query(pass, problem, stage, [](const Stage&, const Problem&) {});
}

const char* cuflash_chosen_stage(int pass, const cuflash_problem* problem, const char* stage) {
  const char* name = nullptr;
  api::query(pass, problem, stage,
             [&](const Stage& chosen, const Problem&) { name = chosen.name; });
  return name;
}

size_t cuflash_workspace_bytes(int pass, const cuflash_problem* problem, const char* stage) {
  size_t bytes = 0;
  api::query(pass, problem, stage, [&](const Stage&, const Problem& p) {
    bytes = api::workspace_bytes(Pass{pass}, p, stage);
  });
  return bytes;
}

int cuflash_num_stages() { return int(stages().size()); }

const char* cuflash_stage_name(int index) {
  const bool exists = index >= 0 && index < cuflash_num_stages();
  return exists ? stages()[std::size_t(index)]->name : nullptr;
}

const char* cuflash_backend() { return CUFLASH_BACKEND; }

int cuflash_version() { return CUFLASH_VERSION; }
