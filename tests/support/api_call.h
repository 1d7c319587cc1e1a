// One call of the public API, which can be repeated: its tensors are contiguous and have their own
// device memory.
#ifndef CUFLASH_TESTS_SUPPORT_API_CALL_H_
#define CUFLASH_TESTS_SUPPORT_API_CALL_H_

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuflash/flash_attention.h"
#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "harness/device_tensor.h"
#include "harness/inputs.h"
#include "harness/stage_score.h"

namespace cuflash {

// The problem with this name.
inline Problem problem_of(const std::string& name) {
  Problem problem;
  if (!parse_problem(name, problem)) throw std::logic_error(name + " is not a problem's name");
  return problem;
}

// Inputs of zeros.
inline harness::Inputs zeros(const Problem& p) {
  const std::size_t rows = std::size_t(p.batch) * p.heads_q * p.seq_q;
  const std::size_t kv_rows = std::size_t(p.batch) * p.heads_kv * p.seq_kv;
  const std::vector<float> q(rows * p.head_dim), kv(kv_rows * p.head_dim);
  return {q, kv, kv, q, q, std::vector<float>(rows)};
}

// Whether gradients of this way have the same bits in every run. They do where the library chooses.
inline bool has_fixed_order(const char* stage) {
  const Stage* const named = stage != nullptr ? find_stage(stage) : nullptr;
  return named == nullptr || named->backward.features.has(Feature::kDeterministic);
}

class ApiCall {
 public:
  // The backward pass takes O and LSE from the inputs.
  ApiCall(Pass pass, const Problem& p, const harness::Inputs& inputs) : pass_(pass), problem_(p) {
    for (const char* name : {"Q", "K", "V", "O", "LSE"}) add(name);
    if (pass == CUFLASH_BACKWARD) {
      for (const char* name : {"dO", "dQ", "dK", "dV"}) add(name);
    }
    upload(inputs);
    poison();
  }

  // Gives the call other inputs, in the same memory. The copies are complete when this returns.
  void upload(const harness::Inputs& in) const {
    at("Q").upload(in.q), at("K").upload(in.k), at("V").upload(in.v);
    if (pass_ == CUFLASH_BACKWARD) {
      at("O").upload(in.o), at("LSE").upload(in.lse), at("dO").upload(in.d_o);
    }
    settle();
  }

  // Fills the outputs with NaN.
  void poison() const {
    for (const std::string& name : output_names()) at(name).poison();
    settle();
  }

  // Makes the call. `workspace` has the size that the call needs, or is null.
  FlashAttentionError queue(cudaStream_t stream, const char* stage,
                            void* workspace = nullptr) const {
    const std::size_t bytes = workspace ? workspace_bytes(pass_, problem_, stage) : 0;
    const auto t = [&](const char* name) { return at(name).view(); };
    const auto lse = static_cast<float*>(t("LSE").data);
    const auto queued = [&](auto call, auto args) {
      args.workspace = workspace;
      args.workspace_bytes = bytes;
      return call(problem_, args, stream, stage);
    };
    if (pass_ == CUFLASH_FORWARD) {
      return queued(forward, Forward(t("Q"), t("K"), t("V"), t("O"), lse));
    }
    Backward args(t("Q"), t("K"), t("V"), t("O"), t("dO"), t("dQ"), t("dK"), t("dV"), lse);
    args.deterministic = has_fixed_order(stage);
    return queued(backward, args);
  }

  // Copies the outputs back. The stream must have been synchronised.
  harness::Outputs outputs() const {
    harness::Outputs all;
    for (const std::string& name : output_names()) all.tensors[name] = at(name).download();
    return all;
  }

  // The tensor of this name.
  Tensor view(const std::string& name) const { return at(name).view(); }
  std::vector<std::string> output_names() const {
    if (pass_ == CUFLASH_FORWARD) return {"O", "LSE"};
    return {"dQ", "dK", "dV"};
  }
  Pass pass() const { return pass_; }
  const Problem& problem() const { return problem_; }

 private:
  void add(const std::string& name) {
    const bool lse = name == "LSE", kv = name.back() == 'K' || name.back() == 'V';
    const harness::DeviceTensor::Shape shape = {
        problem_.batch, kv ? problem_.heads_kv : problem_.heads_q,
        kv ? problem_.seq_kv : problem_.seq_q, lse ? 1 : problem_.head_dim};
    tensors_.emplace(name, harness::DeviceTensor(shape, lse ? CUFLASH_F32 : problem_.dtype,
                                                 harness::Layout::kBHSD, /*guard_bytes=*/0, name));
  }
  const harness::DeviceTensor& at(const std::string& name) const { return tensors_.at(name); }
  // A copy from pageable memory may still be in progress when cudaMemcpy returns, and not every
  // stream waits for it.
  static void settle() { harness::check(cudaStreamSynchronize(nullptr), "the copies"); }

  Pass pass_;
  Problem problem_;
  std::map<std::string, harness::DeviceTensor> tensors_;
};

// The names of the stages that can run this pass of this problem here, except those that compute
// another attention; null, the library's own choice, comes last.
inline std::vector<const char*> ways_to_run(Pass pass, const Problem& problem) {
  std::vector<const char*> names;
  for (const Stage* stage : stages()) {
    if (harness::score_of(*stage).value != nullptr) continue;
    if (supports(*stage, pass, problem, current_device())) names.push_back(stage->name);
  }
  names.push_back(nullptr);
  return names;
}

// The name of such a way in a test's messages.
inline const char* shown(const char* stage) { return stage != nullptr ? stage : "the chosen one"; }

}  // namespace cuflash

#endif  // CUFLASH_TESTS_SUPPORT_API_CALL_H_
