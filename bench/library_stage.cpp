#include "library_stage.h"

#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>

#include "cuflash/c_api.h"

namespace cuflash::bench {
namespace {

struct Library {
  std::string stage;
  decltype(&cuflash_forward) forward;
  decltype(&cuflash_backward) backward;
  decltype(&cuflash_check_support) check_support;
  decltype(&cuflash_workspace_bytes) workspace_bytes;
  decltype(&cuflash_last_error_message) last_error_message;
};
Library libraries[kLibraries];  // A stage's functions depend only on their library's number.

template <class Function>
void find(void* library, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(path + " has no " + name + "().");
}

// The problem for a library that may be older than windows, and than parts of the keys and pages.
cuflash_problem first_version(const Problem& p) {
  cuflash_problem problem = p;
  if (p.split_keys != 0 || p.num_splits != 0 || p.page_size != 0) return problem;
  problem.size = offsetof(cuflash_problem, split_keys);
  if (p.window_left < 0 && p.window_right < 0)
    problem.size = offsetof(cuflash_problem, window_left);
  return problem;
}

template <int n>
std::size_t workspace_bytes(Pass pass, const Problem& p) {
  const cuflash_problem problem = first_version(p);
  return libraries[n].workspace_bytes(pass, &problem, libraries[n].stage.c_str());
}

template <int n, Pass kPass>
std::size_t workspace_of(const Problem& p) {
  return workspace_bytes<n>(kPass, p);
}

template <int n>
FlashAttentionError forward(const Problem& p, const Forward& given, const Device&,
                            cudaStream_t stream) {
  const cuflash_problem problem = first_version(p);
  Forward args = given;
  args.workspace_bytes = workspace_bytes<n>(CUFLASH_FORWARD, p);
  return static_cast<FlashAttentionError>(
      libraries[n].forward(&problem, &args, libraries[n].stage.c_str(), stream));
}

template <int n>
FlashAttentionError backward(const Problem& p, const Backward& given, const Device&,
                             cudaStream_t stream) {
  const cuflash_problem problem = first_version(p);
  Backward args = given;
  args.workspace_bytes = workspace_bytes<n>(CUFLASH_BACKWARD, p);
  return static_cast<FlashAttentionError>(
      libraries[n].backward(&problem, &args, libraries[n].stage.c_str(), stream));
}

template <int n>
Stage stage() {
  Stage stage;
  stage.name = libraries[n].stage.c_str();
  stage.forward.workspace_bytes = workspace_of<n, CUFLASH_FORWARD>;
  stage.backward.workspace_bytes = workspace_of<n, CUFLASH_BACKWARD>;
  stage.forward.run = forward<n>;
  stage.backward.run = backward<n>;
  stage.backward.features = kDenseFeatures;  // The library itself refuses unsupported calls.
  return stage;
}

}  // namespace

Stage library_stage(int n, const std::string& path, const std::string& name) {
  // Two libraries with one name but different paths are loaded separately, each with its own
  // symbols.
  void* const loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) throw std::runtime_error(dlerror());
  Library& library = libraries[n];
  library.stage = name;
  find(loaded, path, "cuflash_forward", library.forward);
  find(loaded, path, "cuflash_backward", library.backward);
  find(loaded, path, "cuflash_check_support", library.check_support);
  find(loaded, path, "cuflash_workspace_bytes", library.workspace_bytes);
  find(loaded, path, "cuflash_last_error_message", library.last_error_message);
  return n == 0 ? stage<0>() : stage<1>();
}

Support library_supports(int n, Pass pass, const Problem& p) {
  const cuflash_problem problem = first_version(p);
  const Library& library = libraries[n];
  const int error = library.check_support(pass, &problem, library.stage.c_str());
  return {static_cast<FlashAttentionError>(error), error == 0 ? "" : library.last_error_message()};
}

}  // namespace cuflash::bench
