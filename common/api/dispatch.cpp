// The API's calls: check the arguments, choose the stage, provide its workspace, queue its work.
#include "api/dispatch.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "api/last_error.h"
#include "cuflash/workload.h"

namespace cuflash::api {
namespace {

using Error = FlashAttentionError;

// ---- The choice of stage -----------------------------------------------------------------------

Choice unknown_stage(const char* name, bool by_the_call) {
  std::string reason = by_the_call ? "the call names stage" : "CUFLASH_STAGE is";
  reason += " \"" + std::string(name) + "\", but there is no such stage; the stages are";
  const char* separator = " ";
  for (const Stage* stage : stages()) {
    reason += separator + std::string(stage->name);
    separator = ", ";
  }
  return {nullptr, {Error::UNKNOWN_STAGE, std::move(reason)}};
}

// The stage that the call names, else the one that CUFLASH_STAGE names, else the fastest. The
// problem has passed validate().
Choice choose_fit(Pass pass, const Problem& problem, const char* name, Features also = {}) {
  const bool by_the_call = name != nullptr;
  if (!by_the_call) {
    name = std::getenv("CUFLASH_STAGE");
    if (name != nullptr && *name == '\0') name = nullptr;
  }
  const Stage* stage = name != nullptr ? find_stage(name) : nullptr;
  if (name != nullptr && stage == nullptr) return unknown_stage(name, by_the_call);

  const Device& device = current_device();
  if (stage != nullptr) return {stage, supports(*stage, pass, problem, device, also)};
  stage = choose_stage(pass, problem, device, also);
  if (stage != nullptr) return {stage, {}};
  return {stages().front(), why_none(pass, problem, device, also)};
}

// ---- Work on the stream ------------------------------------------------------------------------

Error cuda_error(const std::string& what, cudaError_t error) {
  return refuse(Error::CUDA_ERROR, what + ": " + cudaGetErrorString(error));
}

// Scratch memory allocated in stream order: no other stream waits, and a CUDA graph can record it.
class Workspace {
 public:
  explicit Workspace(cudaStream_t stream) : stream_(stream) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { (void)release(); }

  cudaError_t allocate(std::size_t bytes) { return cudaMallocAsync(&data_, bytes, stream_); }
  cudaError_t release() {
    void* data = std::exchange(data_, nullptr);
    return data == nullptr ? cudaSuccess : cudaFreeAsync(data, stream_);
  }
  void* data() const { return data_; }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

std::string needs(const Stage& stage, std::size_t bytes) {
  return std::string(stage.name) + " needs a workspace of " + std::to_string(bytes) + " bytes";
}

// Refuses a caller's workspace that is too small.
Error small_workspace(const Stage& stage, std::size_t bytes, std::size_t given) {
  return refuse(Error::OUT_OF_MEMORY,
                needs(stage, bytes) + "; the caller's has " + std::to_string(given));
}

// Reports that the runtime could not allocate a workspace of `bytes`.
Error no_workspace(const Stage& stage, std::size_t bytes, cudaError_t error) {
  (void)cudaGetLastError();  // Reported here; the caller's next CUDA call must not see it again.
  const std::string what = needs(stage, bytes);
  if (error != cudaErrorMemoryAllocation) return cuda_error(what, error);
  return refuse(Error::OUT_OF_MEMORY, what + "; the device has less free memory");
}

// Reports a stage's error, with the runtime's message if the runtime failed.
Error stage_failed(const Stage& stage, Pass pass, Error error) {
  const std::string what = std::string(stage.name) + ", " + pass_name(pass) + " pass";
  const cudaError_t cause = cudaGetLastError();
  if (error == Error::CUDA_ERROR && cause != cudaSuccess) return cuda_error(what, cause);
  return refuse(error, what + ": " + get_error_string(error));
}

Error queue(const Stage& stage, const Problem& p, const Forward& args, cudaStream_t stream) {
  return stage.forward.run(p, args, current_device(), stream);
}
Error queue(const Stage& stage, const Problem& p, const Backward& args, cudaStream_t stream) {
  return stage.backward.run(p, args, current_device(), stream);
}

bool nothing_to_do(const Forward&) { return false; }
bool nothing_to_do(const Backward& args) {
  return args.dq.data == nullptr && args.dk.data == nullptr && args.dv.data == nullptr;
}

// One call, either pass.
template <class Args>
Error call(Pass pass, const Problem& problem, Args args, cudaStream_t stream, const char* name) {
  // Refuse an invalid call, then one that the chosen stage does not support.
  if (const Support fit = validate(problem, args); !fit) return refuse(fit);
  const auto [stage, support] = choose_fit(pass, problem, name, features_of(problem, args));
  if (!support) return refuse(support);
  if (nothing_to_do(args)) return succeed();

  // Report a pending CUDA error now, so that it is not attributed to this call.
  if (const cudaError_t earlier = cudaGetLastError(); earlier != cudaSuccess) {
    return cuda_error("an earlier CUDA call of this thread failed", earlier);
  }

  // Provide the workspace: the caller's, or one allocated on the stream.
  const std::size_t bytes = stage->facts(pass).workspace_bytes(problem);
  Workspace workspace(stream);
  if (args.workspace != nullptr) {
    if (args.workspace_bytes < bytes) return small_workspace(*stage, bytes, args.workspace_bytes);
  } else if (bytes > 0) {
    const cudaError_t error = workspace.allocate(bytes);
    if (error != cudaSuccess) return no_workspace(*stage, bytes, error);
    args.workspace = workspace.data();
  }

  // Queue the stage's work, and after it the release of the workspace.
  if (const Error error = queue(*stage, problem, args, stream); error != Error::SUCCESS) {
    return stage_failed(*stage, pass, error);
  }
  if (const cudaError_t error = workspace.release(); error != cudaSuccess) {
    (void)cudaGetLastError();
    return cuda_error("cudaFreeAsync of the workspace", error);
  }
  return succeed();
}

}  // namespace

Choice choose(Pass pass, const Problem& problem, const char* stage) {
  const Support fit = validate(problem);
  return fit ? choose_fit(pass, problem, stage) : Choice{nullptr, fit};
}

std::size_t workspace_bytes(Pass pass, const Problem& problem, const char* stage) {
  constexpr auto kDeterministic = static_cast<unsigned>(Feature::kDeterministic);
  constexpr auto kNull = static_cast<unsigned>(Feature::kNullGradients);
  std::size_t bytes = 0;
  for (const unsigned also : {0u, kDeterministic, kNull, kDeterministic | kNull}) {
    const Choice choice = choose_fit(pass, problem, stage, {also});
    if (choice.support) bytes = std::max(bytes, choice.stage->facts(pass).workspace_bytes(problem));
  }
  return bytes;
}

FlashAttentionError forward(const Problem& problem, const Forward& args, cudaStream_t stream,
                            const char* stage) {
  return call(CUFLASH_FORWARD, problem, args, stream, stage);
}

FlashAttentionError backward(const Problem& problem, const Backward& args, cudaStream_t stream,
                             const char* stage) {
  return call(CUFLASH_BACKWARD, problem, args, stream, stage);
}

}  // namespace cuflash::api
