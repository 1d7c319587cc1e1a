// Puts a random call's structs in memory, makes the call, and returns the answer.
#ifndef CUFLASH_TESTS_UNIT_FUZZ_MAKE_H_
#define CUFLASH_TESTS_UNIT_FUZZ_MAKE_H_

#include <algorithm>
#include <optional>
#include <string>

#include "fuzz_model.h"
#include "guarded_memory.h"

namespace cuflash::fuzz {

// A struct in memory: as many bytes as its size states, and those beyond it.
inline Bytes struct_bytes(const void* known, std::size_t bytes, std::uint32_t size,
                          const Bytes& after) {
  const auto* first = static_cast<const std::byte*>(known);
  const std::size_t present = std::min<std::size_t>(bytes, std::max<std::uint32_t>(size, 4));
  Bytes content(first, first + present);
  content.insert(content.end(), after.begin(), after.end());
  return content;
}

inline Bytes args_content(const FuzzCall& call) {
  const cuflash_backward_args& a = call.args;
  if (call.pass == CUFLASH_FORWARD) {
    const cuflash_forward_args forward = {
        a.size, a.q, a.k, a.v, a.o, const_cast<float*>(a.lse), a.workspace, a.workspace_bytes};
    return struct_bytes(&forward, sizeof forward, a.size, call.after_args);
  }
  return struct_bytes(&a, sizeof a, a.size, call.after_args);
}

inline Bytes text_content(const std::optional<std::string>& text) {
  if (!text) return {};
  const auto* first = reinterpret_cast<const std::byte*>(text->c_str());
  return Bytes(first, first + text->size() + 1);
}

// The host arguments of a call, each at a guard.
class Given {
 public:
  Given(const FuzzCall& call, Flush flush)
      : call_(call),
        problem_(
            struct_bytes(&call.problem, sizeof call.problem, call.problem.size, call.after_problem),
            8, flush),
        args_(args_content(call), 8, flush),
        stage_(text_content(call.stage), 1, flush) {}

  const cuflash_problem* problem() const {
    return at<cuflash_problem>(problem_, call_.null_problem);
  }
  template <class Args>
  const Args* args() const {
    return at<Args>(args_, call_.null_args);
  }
  const char* stage() const { return at<char>(stage_, !call_.stage); }
  bool unchanged() const {
    for (const GuardedHost* part : {&problem_, &args_, &stage_}) {
      if (part->now() != part->before() || !part->guards_intact()) return false;
    }
    return true;
  }

 private:
  template <class T>
  static const T* at(const GuardedHost& memory, bool null) {
    return null ? nullptr : reinterpret_cast<const T*>(memory.data());
  }
  const FuzzCall& call_;
  GuardedHost problem_, args_, stage_;
};

// The answer of a call. A question that returns no code has that of cuflash_check_support().
struct Answer {
  int code = 0;
  bool refused = false;
  std::size_t workspace = 0;
  const char* stage = nullptr;
};

// Calls a function of the simple form; T is its element type.
template <class T, class ForwardFn, class BackwardFn>
int simple(const FuzzCall& call, ForwardFn forward, BackwardFn backward) {
  const cuflash_problem& p = call.problem;
  const cuflash_backward_args& a = call.args;
  const auto data = [](const cuflash_tensor& t) { return static_cast<T*>(t.data); };
  if (call.pass == CUFLASH_FORWARD) {
    return forward(data(a.q), data(a.k), data(a.v), data(a.o), const_cast<float*>(a.lse), p.batch,
                   p.heads_q, p.seq_q, p.head_dim, p.softmax_scale, p.causal != 0, nullptr);
  }
  return backward(data(a.q), data(a.k), data(a.v), data(a.o), a.lse, data(a.d_o), data(a.dq),
                  data(a.dk), data(a.dv), p.batch, p.heads_q, p.seq_q, p.head_dim, p.softmax_scale,
                  p.causal != 0, nullptr);
}

inline int simple(const FuzzCall& call) {
  switch (call.problem.dtype) {
    case CUFLASH_F32:
      return simple<float>(call, cuflash_attention_forward_f32, cuflash_attention_backward_f32);
    case CUFLASH_F16:
      return simple<void>(call, cuflash_attention_forward_f16, cuflash_attention_backward_f16);
    default:
      return simple<void>(call, cuflash_attention_forward_bf16, cuflash_attention_backward_bf16);
  }
}

inline int full(const FuzzCall& call, const Given& given) {
  if (call.pass == CUFLASH_FORWARD) {
    return cuflash_forward(given.problem(), given.args<cuflash_forward_args>(), given.stage(),
                           nullptr);
  }
  return cuflash_backward(given.problem(), given.args<cuflash_backward_args>(), given.stage(),
                          nullptr);
}

inline Answer make(const FuzzCall& call, const Given& given) {
  const auto check = [&] {
    return cuflash_check_support(call.pass, given.problem(), given.stage());
  };
  Answer answer;
  switch (call.entry) {
    case Entry::kSimple:
      answer.code = simple(call);
      break;
    case Entry::kFull:
      answer.code = full(call, given);
      break;
    case Entry::kCheckSupport:
      answer.code = check();
      break;
    case Entry::kChosenStage:
      answer.stage = cuflash_chosen_stage(call.pass, given.problem(), given.stage());
      answer.refused = answer.stage == nullptr;
      break;
    case Entry::kWorkspaceBytes:
      answer.workspace = cuflash_workspace_bytes(call.pass, given.problem(), given.stage());
      answer.refused = *cuflash_last_error_message() != '\0';
      break;
  }
  if (answer.refused) {
    answer.code = check();
  } else {
    answer.refused = answer.code != CUFLASH_SUCCESS;
  }
  return answer;
}

}  // namespace cuflash::fuzz

#endif  // CUFLASH_TESTS_UNIT_FUZZ_MAKE_H_
