// Measures how many accesses per second the CPU simulator traces, checks and counts, on one core.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "simt/machine.h"
#include "simt_speed_kernel.h"

namespace {

using cuflash::simt::Counts;

constexpr int kBlocks = 40;
constexpr int kRounds = 4096;
constexpr int kRepeats = 5;

// This process's CPU time in seconds, to which other programs do not add.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Prints the best of several runs. All lanes participate in every request here.
template <class Run>
void measure(const char* what, Run run) {
  double best = 0.0;
  for (int i = 0; i < kRepeats; ++i) {
    cuflash::simt::reset_counts();
    const double begin = cpu_seconds();
    run();
    const double seconds = cpu_seconds() - begin;
    const Counts c = cuflash::simt::counts();
    const auto accesses = 32.0 * static_cast<double>(c.global_read_requests +
                                                     c.global_write_requests + c.shared_requests);
    best = std::max(best, accesses / seconds);
  }
  std::printf("%-36s %6.1f million accesses/s\n", what, best * 1e-6);
}

template <class T>
T* device_copy(const std::vector<float>& values) {
  void* data = nullptr;
  cudaMalloc(&data, values.size() * sizeof(float));
  cudaMemcpy(data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  return static_cast<T*>(data);
}

}  // namespace

int main() {
  if (!cuflash::simt::counts_accesses()) {
    std::printf("This build has no hooks, so it counts no accesses.\n");
    return 0;
  }
  const std::vector<float> zeros(kRounds * 32);
  const auto floats = device_copy<float>(zeros);
  const auto halves = device_copy<__half>(zeros);
  const auto out = device_copy<float>(std::vector<float>(kBlocks * 256));

  measure("coalesced reads of f32", [&] { cuflash::run_read_rows(floats, out, kBlocks, kRounds); });
  measure("coalesced reads of f16", [&] { cuflash::run_read_rows(halves, out, kBlocks, kRounds); });
  measure("shared memory, two barriers per tile",
          [&] { cuflash::run_read_tiles(floats, out, kBlocks, kRounds / 32); });
  const auto findings = cuflash::simt::take_findings();
  for (const auto& finding : findings) std::fputs(finding.message().c_str(), stderr);
  return findings.empty() ? 0 : 1;
}
