// Which stage computes a call: found by name, or chosen for the device at hand.
#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "cuflash/stage.h"

namespace cuflash {
namespace {

struct Preference {
  const char* name;
  const char* reason;
};

// Fastest first. A stage that is not here runs only when it is asked for by name.
constexpr Preference kPreferences[] = {
    {"06_forward_backward", "f16 and bf16 on tensor cores, both passes"},
    {"04_register_tiles",
     "small tiles in registers: fewer loads and no conversions for each multiply-add"},
};

// "01_naive" → "01" and "naive".
std::string_view number_of(std::string_view name) { return name.substr(0, name.find('_')); }
std::string_view word_of(std::string_view name) { return name.substr(name.find('_') + 1); }

// A driver that is older than the toolkit, for one, is a reason too. Leaves no error behind.
Device no_device(cudaError_t error) {
  (void)cudaGetLastError();
  return {"", 0, 0, 0, cudaGetErrorString(error)};
}

// The newest code in this library that runs on a device: its own or an older one's, as PTX.
int newest_code(int compute_capability) {
  int newest = 0;
  for (const int built_for : {CUFLASH_BUILT_FOR}) {
    if (built_for <= compute_capability) newest = std::max(newest, built_for);
  }
  return newest;
}

// What the runtime says of one device.
Device ask(int ordinal) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) return no_device(error);
  const int capability = 10 * properties.major + properties.minor;
  return {properties.name, capability, properties.sharedMemPerBlockOptin, newest_code(capability),
          ""};
}

}  // namespace

const Stage* find_stage(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const Stage* stage : stages()) {
    if (name == stage->name) return stage;
  }
  // A number may be shared with a local stage, which comes later in the list. Words are unique:
  // each is the namespace of its stage.
  for (const Stage* stage : stages()) {
    if (name == number_of(stage->name) || name == word_of(stage->name)) return stage;
  }
  return nullptr;
}

const Stage* choose_stage(Pass pass, const Problem& problem, const Device& device) {
  for (const Preference& preference : kPreferences) {
    const Stage* stage = find_stage(preference.name);
    if (stage != nullptr && supports(*stage, pass, problem, device)) return stage;
  }
  return nullptr;
}

Device current_device() {
  int ordinal = 0;
  if (const cudaError_t error = cudaGetDevice(&ordinal); error != cudaSuccess) {
    return no_device(error);
  }
  // Asking takes milliseconds and an answer never changes, so each device is asked once. The map is
  // never destroyed: a call may come from a destructor that runs at exit.
  static std::mutex mutex;
  static auto& known = *new std::map<int, Device>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = known.find(ordinal);
  if (found != known.end()) return found->second;
  const Device device = ask(ordinal);
  if (device.compute_capability != 0) known[ordinal] = device;
  return device;
}

}  // namespace cuflash
