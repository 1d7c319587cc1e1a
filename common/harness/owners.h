// Owners of resources of the CUDA runtime: device memory, streams, events. Every call is checked; a
// failed one throws with the runtime's sentence.
#ifndef CUFLASH_HARNESS_OWNERS_H_
#define CUFLASH_HARNESS_OWNERS_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "simt/simulator.h"

namespace cuflash::harness {

// A call of the CUDA runtime that failed.
class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& what, cudaError_t code)
      : std::runtime_error(what + ": " + cudaGetErrorString(code)), code_(code) {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

// Throws if a call failed. `what` names the call.
inline void check(cudaError_t code, const std::string& what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // Clears the runtime's last error for the next check.
  throw CudaError(what, code);
}

// Device memory.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // `name` is the allocation's name in the CPU simulator's findings.
  explicit DeviceBuffer(std::size_t bytes, const char* name = "buffer") : bytes_(bytes) {
    if (bytes == 0) return;
    check(cudaMalloc(&data_, bytes), "cudaMalloc of " + std::to_string(bytes) + " bytes");
    simt::name_memory(data_, name);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A stream. It waits for earlier work of the default stream, such as copies to the device, unless
// it is made with cudaStreamNonBlocking.
class Stream {
 public:
  explicit Stream(unsigned flags = 0) {
    check(cudaStreamCreateWithFlags(&stream_, flags), "cudaStreamCreateWithFlags");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }

  cudaStream_t get() const { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_), "the kernels"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// A point in a stream that can be waited for and timed.
class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }

  void record(const Stream& stream) {
    check(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
  }
  void synchronize() const { check(cudaEventSynchronize(event_), "the kernels"); }
  // Milliseconds from `start` to this event.
  float ms_since(const Event& start) const {
    float ms = 0.f;
    check(cudaEventElapsedTime(&ms, start.event_, event_), "cudaEventElapsedTime");
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_OWNERS_H_
