#include "timing.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace cuflash::bench {
namespace {

constexpr double kSlowMs = 300.;     // Timed once.
constexpr double kWarmUpMs = 50.;    // Long enough for the clocks to rise.
constexpr double kMeasureMs = 500.;  // Roughly the length of the measurement.
constexpr int kMinCalls = 10, kMaxCalls = 100;
constexpr int kRounds = 5;       // in which several calls take turns
constexpr double kTurnMs = 20.;  // before a turn: the clock is the call's own

double time_once(const Queue& queue, const harness::Stream& stream) {
  harness::Event start, stop;
  start.record(stream);
  queue(stream);
  stop.record(stream);
  stop.synchronize();
  return stop.ms_since(start);
}

// Calls until so much time has passed; returns the time of the last call.
double warm_up(const Queue& queue, const harness::Stream& stream, double for_ms) {
  double ms = 0.;
  for (double warmed = 0.; warmed < for_ms; warmed += std::max(ms, 0.1)) {
    ms = time_once(queue, stream);
  }
  return ms;
}

// A call that is being timed.
struct Timed {
  const Queue& queue;
  int calls;  // in all; 0 if it is slow and has been timed
  std::vector<double> times;
};

Timed begin(const Queue& queue, const harness::Stream& stream) {
  // The first call also loads the kernel, so a slow one is timed again.
  if (time_once(queue, stream) > kSlowMs) return {queue, 0, {time_once(queue, stream)}};
  const double ms = warm_up(queue, stream, kWarmUpMs);
  return {queue, std::clamp(static_cast<int>(kMeasureMs / ms), kMinCalls, kMaxCalls), {}};
}

void time(Timed& timed, int calls, const harness::Stream& stream) {
  for (int n = 0; n < calls; ++n) timed.times.push_back(time_once(timed.queue, stream));
}

double median(std::vector<double>& times) {
  const auto middle = times.begin() + times.size() / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

double median_ms(const Queue& queue) {
  const harness::Stream stream;
  Timed timed = begin(queue, stream);
  time(timed, timed.calls, stream);
  return median(timed.times);
}

std::vector<double> medians_ms(const std::vector<Queue>& queues) {
  const harness::Stream stream;
  std::vector<Timed> all;
  for (const Queue& queue : queues) all.push_back(begin(queue, stream));
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random;
  for (int round = 0; round < kRounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t n : order) {
      if (all[n].calls == 0) continue;
      warm_up(all[n].queue, stream, kTurnMs);
      time(all[n], all[n].calls / kRounds, stream);
    }
  }
  std::vector<double> medians;
  for (Timed& timed : all) medians.push_back(median(timed.times));
  return medians;
}

}  // namespace cuflash::bench
