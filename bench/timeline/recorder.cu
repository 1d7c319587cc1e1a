#include <cstdint>

#include "device/instruments/timeline/set_log.h"
#include "timeline/recorder.h"

namespace cuflash::bench {
namespace {

using harness::check;
using timeline::Event;

__device__ std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// One thread watches the clock until it has moved so many times.
__global__ void smallest_step(int steps, unsigned* smallest) {
  std::uint64_t before = nanoseconds();
  while (steps > 0) {
    const std::uint64_t now = nanoseconds();
    if (now == before) continue;
    *smallest = min(*smallest, static_cast<unsigned>(now - before));
    before = now;
    --steps;
  }
}

}  // namespace

Recorder::Recorder() : log_(sizeof(Event) * timeline::kNumEvents, "timeline") {}

Recorder::~Recorder() { timeline::set_log({}); }

void Recorder::begin(unsigned sm) {
  check(cudaMemset(log_.data(), 0, log_.bytes()), "cudaMemset of the log");
  const auto events = reinterpret_cast<Event*>(log_.data());
  check(timeline::set_log({events, sm}), "cudaMemcpyToSymbol of the log");
  check(cudaDeviceSynchronize(), "cudaMemset of the log");
}

std::vector<Event> Recorder::events() const {
  std::vector<Event> all(timeline::kNumEvents), found;
  check(cudaMemcpy(all.data(), log_.data(), log_.bytes(), cudaMemcpyDeviceToHost), "the log");
  for (const Event& event : all) {
    if (event.tag != 0) found.push_back(event);
  }
  return found;
}

unsigned globaltimer_step() {
  const harness::DeviceBuffer result(sizeof(unsigned), "smallest step");
  unsigned smallest = ~0u;
  check(cudaMemcpy(result.data(), &smallest, sizeof smallest, cudaMemcpyHostToDevice), "a copy");
  smallest_step<<<1, 1>>>(100, reinterpret_cast<unsigned*>(result.data()));
  check(cudaMemcpy(&smallest, result.data(), sizeof smallest, cudaMemcpyDeviceToHost),
        "smallest_step");
  return smallest;
}

}  // namespace cuflash::bench
