#include "timing.h"

#include <algorithm>
#include <vector>

namespace cuflash::bench {
namespace {

constexpr double kSlowMs = 300.;     // Timed once.
constexpr double kWarmUpMs = 50.;    // Long enough for the clocks to rise.
constexpr double kMeasureMs = 500.;  // Roughly the length of the measurement.
constexpr int kMinCalls = 10, kMaxCalls = 100;

}  // namespace

double time_once(const Queue& queue, const harness::Stream& stream) {
  harness::Event start, stop;
  start.record(stream);
  queue(stream);
  stop.record(stream);
  stop.synchronize();
  return stop.ms_since(start);
}

double warm_up(const Queue& queue, const harness::Stream& stream) {
  double ms = 0.;
  for (double warmed = 0.; warmed < kWarmUpMs; warmed += std::max(ms, 0.1)) {
    ms = time_once(queue, stream);
  }
  return ms;
}

double median_ms(const Queue& queue) {
  const harness::Stream stream;
  // The first call also loads the kernel, so a slow one is timed again.
  if (time_once(queue, stream) > kSlowMs) return time_once(queue, stream);
  const double ms = warm_up(queue, stream);
  std::vector<double> times(std::clamp(static_cast<int>(kMeasureMs / ms), kMinCalls, kMaxCalls));
  for (double& time : times) time = time_once(queue, stream);
  const auto middle = times.begin() + times.size() / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace cuflash::bench
