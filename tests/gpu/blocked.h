// A stream whose work is held back.
#ifndef CUFLASH_TESTS_GPU_BLOCKED_H_
#define CUFLASH_TESTS_GPU_BLOCKED_H_

#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "harness/owners.h"

namespace cuflash {

// Holds a stream until release(), but no longer than its patience. After that a call that waits for
// the stream goes on and holds() is false, so that a test fails instead of hanging.
class Blocked {
 public:
  explicit Blocked(const harness::Stream& stream,
                   std::chrono::milliseconds patience = std::chrono::seconds(30))
      : stream_(stream), patience_(patience) {
    harness::check(cudaLaunchHostFunc(stream.get(), wait, this), "cudaLaunchHostFunc");
  }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;
  ~Blocked() {
    release();
    cudaStreamSynchronize(stream_.get());  // wait() must end before its members are destroyed.
  }

  void release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

  // True while work waits on the stream and the patience has not run out.
  bool holds() {
    const cudaError_t state = cudaStreamQuery(stream_.get());
    const std::lock_guard<std::mutex> lock(mutex_);
    return state == cudaErrorNotReady && !gave_up_;
  }

 private:
  static void CUDART_CB wait(void* self) {
    auto& blocked = *static_cast<Blocked*>(self);
    std::unique_lock<std::mutex> lock(blocked.mutex_);
    const bool released =
        blocked.changed_.wait_for(lock, blocked.patience_, [&] { return blocked.released_; });
    blocked.gave_up_ = !released;
  }

  const harness::Stream& stream_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false, gave_up_ = false;
};

}  // namespace cuflash

#endif  // CUFLASH_TESTS_GPU_BLOCKED_H_
