#include <algorithm>
#include <array>
#include <vector>

#include "paired.h"

namespace cuflash::bench {
namespace {

using harness::check;
using harness::Stream;

constexpr double kWarmUpMs = 50.;               // Long enough for the clocks to rise.
constexpr double kMeasureMs = 1000.;            // The approximate maximum for all pairs.
constexpr int kMinTurns = 10, kMaxTurns = 100;  // Two pairs each.

// Each block stores the clock of its SM.
__global__ void read_clocks(long long* clocks, unsigned sms) {
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (sm < sms) clocks[sm] = clock64();
}

// The clocks of all SMs before, between and after a number of calls.
class Clocks {
 public:
  explicit Clocks(std::size_t calls) {
    check(cudaDeviceGetAttribute(&sms_, cudaDevAttrMultiProcessorCount, 0),
          "cudaDeviceGetAttribute");
    clocks_ = harness::DeviceBuffer((calls + 1) * sms_ * sizeof(long long), "clocks");
    check(cudaMemset(clocks_.data(), 0, clocks_.bytes()), "cudaMemset of the clocks");
  }

  // Queues the n-th reading. Blocks go to idle SMs first, so most SMs, if not all, get one.
  void read(std::size_t n, const Stream& stream) {
    read_clocks<<<sms_, 1, 0, stream.get()>>>(
        reinterpret_cast<long long*>(clocks_.data()) + n * sms_, sms_);
    check(cudaGetLastError(), "read_clocks");
  }

  // The cycles of each call: the median over the SMs that were read before and after it.
  std::vector<double> cycles() const {
    std::vector<long long> clocks(clocks_.bytes() / sizeof(long long));
    check(cudaMemcpy(clocks.data(), clocks_.data(), clocks_.bytes(), cudaMemcpyDeviceToHost),
          "cudaMemcpy of the clocks");
    std::vector<double> cycles;
    for (auto before = clocks.begin(); clocks.end() - before > sms_; before += sms_) {
      std::vector<double> passed;
      for (int sm = 0; sm < sms_; ++sm) {
        const long long after = before[sms_ + sm];
        if (before[sm] != 0 && after != 0) passed.push_back(after - before[sm]);
      }
      cycles.push_back(median_of(std::move(passed)).value);
    }
    return cycles;
  }

 private:
  int sms_ = 0;
  harness::DeviceBuffer clocks_;
};

}  // namespace

Paired compare(const Queue& a, const Queue& b) {
  const Stream stream;
  for (const Queue* call : {&a, &b}) time_once(*call, stream);  // The first call loads the kernel.
  const double pair_ms = std::max(time_once(a, stream) + time_once(b, stream), 0.1);
  const int turns = std::clamp(static_cast<int>(kMeasureMs / pair_ms / 2), kMinTurns, kMaxTurns);
  const std::array<const Queue*, 4> turn = {&a, &b, &b, &a};
  const std::size_t calls = turn.size() * turns;
  std::vector<harness::Event> starts(calls), stops(calls);
  Clocks clocks(calls);
  for (double warmed_ms = 0.; warmed_ms < kWarmUpMs; warmed_ms += pair_ms) {
    a(stream), b(stream), clocks.read(0, stream);
  }
  for (std::size_t n = 0; n < calls; ++n) {
    starts[n].record(stream);
    (*turn[n % turn.size()])(stream);
    stops[n].record(stream);
    clocks.read(n + 1, stream);
  }
  stream.synchronize();

  std::vector<double> ms;
  for (std::size_t n = 0; n < calls; ++n) ms.push_back(stops[n].ms_since(starts[n]));
  return {ratio_of(ms), ratio_of(clocks.cycles())};
}

}  // namespace cuflash::bench
