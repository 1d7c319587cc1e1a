// Compares the CPU time of a call of the library with the time of its launches. The times contain
// no GPU work: the problem is small enough for the device to keep up, and the program waits for the
// device between the batches of calls.
#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "cuflash/flash_attention.h"
#include "cuflash/workload.h"

namespace cuflash::bench {
namespace {

constexpr int kBatch = 100;  // calls between two waits: a stream takes about 1,000 without blocking

constexpr std::size_t kRoom = 1 << 20;  // bytes, for several tensors

struct LargeParameter {
  char bytes[256];  // about the size of a stage's kernel parameters
};
__global__ void nothing(LargeParameter) {}

void require(bool done) {
  if (done) return;
  std::fprintf(stderr, "host_calls: %s\n", last_error_message());
  std::exit(1);
}

template <class Call>
void time_on_host(benchmark::State& state, Call call) {
  using Clock = std::chrono::steady_clock;
  call();
  for (auto _ : state) {
    require(cudaDeviceSynchronize() == cudaSuccess);
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kBatch; ++i) call();
    const std::chrono::duration<double> passed = Clock::now() - begin;
    state.SetIterationTime(passed.count() / kBatch);
  }
  require(cudaDeviceSynchronize() == cudaSuccess);
}

void time_launches(benchmark::State& state) {
  time_on_host(state, [&] {
    for (int i = 0; i < state.range(0); ++i) nothing<<<1, 128>>>({});
  });
}

// The library chooses the stage. Without the caller's workspace, the library allocates one.
void time_calls(benchmark::State& state, Pass pass, bool own_workspace) {
  Problem problem;
  require(parse_problem("b1_h4_q64k64_d64_causal", problem));
  problem.dtype = CUFLASH_F16;
  static void* const memory = [] {
    void* allocated = nullptr;
    require(cudaMalloc(&allocated, 4 * kRoom) == cudaSuccess &&
            cudaMemset(allocated, 0, 4 * kRoom) == cudaSuccess);
    return allocated;
  }();
  const Tensor input = contiguous(memory, 4, 64, 64);
  const auto at = [&](int n) { return static_cast<std::byte*>(memory) + n * kRoom; };
  const Tensor output = contiguous(at(1), 4, 64, 64);
  float* const lse = reinterpret_cast<float*>(at(2));
  const auto run = [&](auto args, auto function) {
    if (own_workspace) {
      args.workspace = at(3);
      args.workspace_bytes = kRoom;
    }
    time_on_host(state, [&] { require(function(problem, args) == FlashAttentionError::SUCCESS); });
  };
  if (pass == CUFLASH_FORWARD) {
    run(Forward(input, input, input, output, lse),
        [](const Problem& p, const Forward& args) { return forward(p, args); });
  } else {
    const Tensor dk = contiguous(at(1) + kRoom / 4, 4, 64, 64);
    const Tensor dv = contiguous(at(1) + kRoom / 2, 4, 64, 64);
    run(Backward(input, input, input, input, input, output, dk, dv, lse),
        [](const Problem& p, const Backward& args) { return backward(p, args); });
  }
}

void set_up(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Iterations(200);
}
BENCHMARK(time_launches)->Name("launches")->Arg(1)->Arg(2)->Apply(set_up);
BENCHMARK_CAPTURE(time_calls, , CUFLASH_FORWARD, true)->Name("forward")->Apply(set_up);
BENCHMARK_CAPTURE(time_calls, , CUFLASH_BACKWARD, true)->Name("backward")->Apply(set_up);
BENCHMARK_CAPTURE(time_calls, , CUFLASH_BACKWARD, false)
    ->Name("backward_without_a_workspace")
    ->Apply(set_up);

}  // namespace
}  // namespace cuflash::bench

BENCHMARK_MAIN();
