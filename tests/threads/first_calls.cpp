// The first calls of a process, from many threads at once, under ThreadSanitizer: it reports
// unordered accesses even if the answer is right. No kernels take part: the sources are those of
// common/api, with a stage that queues nothing and a runtime with one device.
#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "cuflash/c_api.h"
#include "cuflash/stage.h"

// ---- The runtime --------------------------------------------------------------------------------

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  properties->major = 9;
  properties->sharedMemPerBlockOptin = 200 << 10;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
cudaError_t cudaMallocAsync(void** data, std::size_t, cudaStream_t) {
  alignas(256) static char memory[256];
  *data = memory;
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }

// ---- The stage ----------------------------------------------------------------------------------

namespace cuflash {
namespace {

std::atomic<int> queued{0};

Stage describe() {
  Stage stage;
  stage.name = "01_only";
  stage.forward.dtypes = {7};
  stage.forward.head_dims = {~0u};
  stage.forward.shared_bytes = [](const Problem&) { return std::size_t{0}; };
  stage.forward.workspace_bytes = [](const Problem&) { return std::size_t{256}; };
  stage.forward.rank = [](const Problem&) { return Rank{1, "the only one"}; };
  stage.forward.run = [](const Problem&, const Forward&, const Device&, cudaStream_t) {
    ++queued;
    return FlashAttentionError::SUCCESS;
  };
  return stage;
}
const Stage kStage = describe();

}  // namespace

const std::vector<const Stage*>& stages() {
  static const std::vector<const Stage*> list = {&kStage};
  return list;
}

}  // namespace cuflash

// ---- The threads --------------------------------------------------------------------------------

namespace {

constexpr int kThreads = 8;

// Makes valid calls and calls to be refused; returns 0 if each answers as it must.
int calls(int thread) {
  alignas(16) static float memory[4][64];
  const cuflash_problem problem = {
      sizeof problem, 1, 1, 1, 1, 1, 64, CUFLASH_F32, 0, 1.f, -1, -1, 0, 0, 0, 0, 0};
  cuflash_forward_args args = {};
  args.size = sizeof args;
  cuflash_tensor* const tensors[] = {&args.q, &args.k, &args.v, &args.o};
  for (int n = 0; n < 4; ++n) tensors[n]->data = memory[n];
  const char* const unknown = thread % 2 == 0 ? "even" : "odd";

  int wrong = cuflash_forward(&problem, &args, nullptr, nullptr) != CUFLASH_SUCCESS;
  wrong +=
      std::strcmp(cuflash_chosen_stage(CUFLASH_FORWARD, &problem, nullptr), cuflash_stage_name(0));
  wrong += cuflash_forward(&problem, &args, unknown, nullptr) != CUFLASH_UNKNOWN_STAGE;
  wrong += std::strstr(cuflash_last_error_message(), unknown) == nullptr;
  return wrong;
}

}  // namespace

int main() {
  std::atomic<int> waiting{kThreads}, wrong{0};
  std::vector<std::thread> threads;
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] {
      // Relaxed: the start orders nothing.
      waiting.fetch_sub(1, std::memory_order_relaxed);
      while (waiting.load(std::memory_order_relaxed) > 0) std::this_thread::yield();
      wrong += calls(n);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d calls queued, %d wrong answers\n", cuflash::queued.load(), wrong.load());
  return cuflash::queued == kThreads && wrong == 0 ? 0 : 1;
}
