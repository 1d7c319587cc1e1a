// The device at hand: what the CUDA runtime says of it.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <memory>

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

// What the runtime says of one device.
cudaError_t ask(int ordinal, Device& device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) return error;
  const int capability = 10 * properties.major + properties.minor;
  device = {properties.name, capability, properties.sharedMemPerBlockOptin, newest_code(capability),
            ""};
  return error;
}

// A driver that is older than the toolkit, for one, is a reason too. Leaves no error behind.
const Device& no_device(cudaError_t error) {
  (void)cudaGetLastError();
  thread_local Device none;
  none = {"", 0, 0, 0, cudaGetErrorString(error)};
  return none;
}

// Asking takes milliseconds and an answer never changes, so each device is asked once. Calls only
// read the list's links: they take no lock. It is never freed: a call may come from a destructor
// that runs at exit.
struct Known {
  int ordinal = 0;
  Device device;
  const Known* next = nullptr;
};
std::atomic<const Known*> first_known{nullptr};

}  // namespace

const Device& current_device() {
  int ordinal = 0;
  if (const cudaError_t error = cudaGetDevice(&ordinal); error != cudaSuccess) {
    return no_device(error);
  }
  for (const Known* known = first_known; known != nullptr; known = known->next) {
    if (known->ordinal == ordinal) return known->device;
  }
  auto asked = std::make_unique<Known>();
  asked->ordinal = ordinal;
  if (const cudaError_t error = ask(ordinal, asked->device); error != cudaSuccess) {
    return no_device(error);
  }
  Known* const added = asked.release();
  added->next = first_known;
  while (!first_known.compare_exchange_weak(added->next, added)) {
  }
  return added->device;
}

}  // namespace cuflash
