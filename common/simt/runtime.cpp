// The CUDA runtime API on the CPU simulator. Everything is synchronous: a launch or copy has ended
// when its call returns, so streams and events are only handles.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "simt/core.h"

struct CUstream_st {};
struct CUevent_st {};

namespace {

using cuflash::simt::as_address;
using cuflash::simt::core;
using cuflash::simt::Region;

thread_local cudaError_t last_error = cudaSuccess;  // each host thread has its own, as in CUDA

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// False if a device pointer is not in a live allocation. Any other pointer counts as the host's.
bool valid_range(const void* pointer, std::size_t bytes) {
  const auto address = as_address(pointer);
  return !core.global.owns(address) || core.global.find_range(pointer, bytes) != nullptr;
}

cudaError_t note_write(void* pointer, std::size_t bytes) {
  Region* region = core.global.find_range(pointer, bytes);
  if (region == nullptr) return cudaSuccess;
  try {
    region->host_write(as_address(pointer), bytes);
  } catch (const std::bad_alloc&) {
    return keep(cudaErrorMemoryAllocation);
  }
  return cudaSuccess;
}

}  // namespace

namespace cuflash::simt {

cudaError_t run_launch(const Launch& launch) { return keep(core.run(launch)); }

}  // namespace cuflash::simt

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : keep(cudaErrorInvalidValue);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return keep(cudaErrorInvalidValue);
  *properties = {};
  std::strcpy(properties->name, "CuFlash CPU simulator");
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 1;
  properties->warpSize = 32;
  properties->totalGlobalMem = core.global.limit();
  properties->sharedMemPerBlock = cuflash::kDefaultSharedBytes;
  properties->sharedMemPerBlockOptin = cuflash::simt::kMaxSharedBytes;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return keep(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard<std::mutex> lock(core.mutex);
  *total = core.global.limit();
  *free = *total - std::min(*total, core.global.in_use());
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(core.mutex);
  *pointer = bytes == 0 ? nullptr : core.global.allocate(bytes);
  return bytes == 0 || *pointer != nullptr ? cudaSuccess : keep(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* pointer) {
  const std::lock_guard<std::mutex> lock(core.mutex);
  return pointer == nullptr || core.global.free(pointer) ? cudaSuccess
                                                         : keep(cudaErrorInvalidValue);
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t) {
  return cudaMalloc(pointer, bytes);
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  const std::lock_guard<std::mutex> lock(core.mutex);
  if (!valid_range(to, bytes) || !valid_range(from, bytes)) return keep(cudaErrorInvalidValue);
  std::memmove(to, from, bytes);
  return note_write(to, bytes);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(core.mutex);
  if (!valid_range(to, bytes)) return keep(cudaErrorInvalidValue);
  std::memset(to, value, bytes);
  return note_write(to, bytes);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(to, value, bytes);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreate(stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }

cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }

cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t) {
  return keep(cudaErrorNotSupported);
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define CUFLASH_NAME(name) \
  case name:               \
    return #name;
    CUFLASH_NAME(cudaSuccess)
    CUFLASH_NAME(cudaErrorInvalidValue)
    CUFLASH_NAME(cudaErrorMemoryAllocation)
    CUFLASH_NAME(cudaErrorInvalidConfiguration)
    CUFLASH_NAME(cudaErrorNoDevice)
    CUFLASH_NAME(cudaErrorInvalidResourceHandle)
    CUFLASH_NAME(cudaErrorLaunchFailure)
    CUFLASH_NAME(cudaErrorNotSupported)
#undef CUFLASH_NAME
  }
  return "unknown error";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid launch configuration: see the simulator's findings";
    case cudaErrorLaunchFailure:
      return "the launch was stopped: see the simulator's findings";
    case cudaErrorNotSupported:
      return "operation not supported: the CPU simulator measures no time";
    default:
      return cudaGetErrorName(error);
  }
}
