// The device at hand: what the CUDA runtime says of it.
#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "cuflash/stage.h"

namespace cuflash {
namespace {

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
