// The current device, as the CUDA runtime describes it.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <utility>

#include "cuflash/stage.h"

namespace cuflash {
namespace {

// The newest code in this library that runs on a device: its own or an older one's, as PTX.
int newest_code(int compute_capability) {
  int newest = 0;
  for (const int built_for : {CUFLASH_BUILT_FOR}) {
    if (built_for <= compute_capability) newest = std::max(newest, built_for);
  }
  return newest;
}

// True if this library has code for devices of this compute capability alone.
bool exact_code(int compute_capability) {
  const std::initializer_list<int> built_for = {CUFLASH_BUILT_EXACTLY_FOR};
  return std::find(built_for.begin(), built_for.end(), compute_capability) != built_for.end();
}

// The runtime's description of one device.
cudaError_t ask(int ordinal, Device& device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) return error;
  const int capability = 10 * properties.major + properties.minor;
  device = {properties.name,
            capability,
            properties.sharedMemPerBlockOptin,
            properties.multiProcessorCount,
            newest_code(capability),
            exact_code(capability)};
  return error;
}

// Answers by key, in a list that takes no lock. Nothing is ever freed: a call may come from a
// destructor that runs at exit.
class Answers {
 public:
  const Device* find(int key) const {
    for (const Answer* answer = first_; answer != nullptr; answer = answer->next) {
      if (answer->key == key) return &answer->device;
    }
    return nullptr;
  }
  const Device& add(int key, Device device) {
    auto* const added = new Answer{key, std::move(device), first_};
    while (!first_.compare_exchange_weak(added->next, added)) {
    }
    return added->device;
  }

 private:
  struct Answer {
    int key;
    Device device;
    const Answer* next;
  };
  std::atomic<const Answer*> first_{nullptr};
};

// Querying a device takes milliseconds and the answer never changes, so each is queried once.
Answers by_ordinal, by_error;

// The answer where no device can be used, for example because the driver is older than the
// toolkit. Clears the runtime's error.
const Device& no_device(cudaError_t error) {
  (void)cudaGetLastError();
  if (const Device* known = by_error.find(error)) return *known;
  Device none;
  none.fault = cudaGetErrorString(error);
  return by_error.add(error, std::move(none));
}

}  // namespace

const Device& current_device() {
  int ordinal = 0;
  if (const cudaError_t error = cudaGetDevice(&ordinal); error != cudaSuccess) {
    return no_device(error);
  }
  if (const Device* known = by_ordinal.find(ordinal)) return *known;
  Device device;
  if (const cudaError_t error = ask(ordinal, device); error != cudaSuccess) {
    return no_device(error);
  }
  return by_ordinal.add(ordinal, std::move(device));
}

}  // namespace cuflash
