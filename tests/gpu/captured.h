// A CUDA graph of the work that a test queues.
#ifndef CUFLASH_TESTS_GPU_CAPTURED_H_
#define CUFLASH_TESTS_GPU_CAPTURED_H_

#include <cuda_runtime.h>

#include "harness/owners.h"

namespace cuflash {

class Captured {
 public:
  // Captures what queue() puts on the stream. Throws if the runtime reports the capture as invalid.
  template <class Queue>
  Captured(const harness::Stream& stream, cudaStreamCaptureMode mode, const Queue& queue) {
    harness::check(cudaStreamBeginCapture(stream.get(), mode), "cudaStreamBeginCapture");
    queue();
    harness::check(cudaStreamEndCapture(stream.get(), &graph_), "cudaStreamEndCapture");
    const cudaError_t error = cudaGraphInstantiateWithFlags(&executable_, graph_, 0);
    if (error != cudaSuccess) cudaGraphDestroy(graph_);  // No destructor runs after a throw.
    harness::check(error, "cudaGraphInstantiateWithFlags");
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }

  // Launches the graph and waits for its end.
  void run(const harness::Stream& stream) const {
    harness::check(cudaGraphLaunch(executable_, stream.get()), "cudaGraphLaunch");
    stream.synchronize();
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace cuflash

#endif  // CUFLASH_TESTS_GPU_CAPTURED_H_
