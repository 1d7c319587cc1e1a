// The time of a call on a GPU.
#ifndef CUFLASH_BENCH_TIMING_H_
#define CUFLASH_BENCH_TIMING_H_

#include <functional>

#include "harness/owners.h"
#include "harness/stage_call.h"

namespace cuflash::bench {

// The method of median_ms(), as a sentence for reports.
inline constexpr const char* kTimingMethod =
    "CUDA events, median of 10 to 100 calls after a warm-up, L2 warm; a call over 0.3 s is timed "
    "once";

// Queues a call.
using Queue = std::function<void(const harness::Stream&)>;

// Milliseconds between an event before a call and one after it.
double time_once(const Queue& queue, const harness::Stream& stream);

// Calls until the clocks have risen. Returns the milliseconds of the last call.
double warm_up(const Queue& queue, const harness::Stream& stream);

// Milliseconds of one call: the median after a warm-up, by CUDA events. The previous call may have
// left inputs in L2. A call over 0.3 s is timed once. Throws if there is no GPU.
double median_ms(const Queue& queue);

inline double median_ms(harness::StageCall& call) {
  return median_ms([&](const harness::Stream& stream) { call.queue(stream); });
}

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_TIMING_H_
