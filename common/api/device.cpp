// The current device, as the CUDA runtime describes it.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <utility>

#include "cuflash/stage.h"

namespace cuflash {
namespace {

// The compute capability of the newest code in this library that runs on a device: native code, or
// PTX for an older device.
int newest_code(int compute_capability) {
  int newest = 0;
  for (const int built_for : {CUFLASH_BUILT_FOR}) {
    if (built_for <= compute_capability) newest = std::max(newest, built_for);
  }
  return newest;
}

// True if this library has code for exactly this compute capability, such as sm_90a.
bool exact_code(int compute_capability) {
  const std::initializer_list<int> built_for = {CUFLASH_BUILT_EXACTLY_FOR};
  return std::find(built_for.begin(), built_for.end(), compute_capability) != built_for.end();
}

// The runtime's description of one device.
cudaError_t query(int ordinal, Device& device) {
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

// Devices by key, in a lock-free list. Nothing is ever freed: a call may come from a destructor
// that runs at exit.
class DeviceList {
 public:
  const Device* find(int key) const {
    for (const Entry* entry = first_; entry != nullptr; entry = entry->next) {
      if (entry->key == key) return &entry->device;
    }
    return nullptr;
  }
  const Device& add(int key, Device device) {
    auto* const added = new Entry{key, std::move(device), first_};
    while (!first_.compare_exchange_weak(added->next, added)) {
    }
    return added->device;
  }

 private:
  struct Entry {
    int key;
    Device device;
    const Entry* next;
  };
  std::atomic<const Entry*> first_{nullptr};
};

// Querying a device takes milliseconds and the result never changes, so each is queried once.
DeviceList by_ordinal, by_error;

// The result if no device can be used, for example because the driver is older than the toolkit.
// Clears the runtime's error.
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
  if (const cudaError_t error = query(ordinal, device); error != cudaSuccess) {
    return no_device(error);
  }
  return by_ordinal.add(ordinal, std::move(device));
}

}  // namespace cuflash
