#include "timing.h"

#include <algorithm>
#include <vector>

namespace cuflash::bench {
namespace {

constexpr double kSlowMs = 300.;     // Timed once.
constexpr double kWarmUpMs = 50.;    // Long enough for the clocks to rise.
constexpr double kMeasureMs = 500.;  // Roughly the length of the measurement.
constexpr int kMinCalls = 10, kMaxCalls = 100;

using Queue = std::function<void(const harness::Stream&)>;

double time_once(const Queue& queue, const harness::Stream& stream) {
  harness::Event start, stop;
  start.record(stream);
  queue(stream);
  stop.record(stream);
  stop.synchronize();
  return stop.ms_since(start);
}

}  // namespace

double median_ms(const Queue& queue) {
  const harness::Stream stream;
  // The first call also loads the kernel, so a slow one is timed again.
  double ms = time_once(queue, stream);
  if (ms > kSlowMs) return time_once(queue, stream);
  double warmed = 0.;
  while (warmed < kWarmUpMs) {
    ms = time_once(queue, stream);
    warmed += std::max(ms, 0.1);
  }

  const int calls = std::clamp(static_cast<int>(kMeasureMs / ms), kMinCalls, kMaxCalls);
  std::vector<double> times(calls);
  for (double& time : times) time = time_once(queue, stream);
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  return times[calls / 2];
}

}  // namespace cuflash::bench
