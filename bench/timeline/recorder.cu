#include "device/instruments/timeline/set_log.h"
#include "timeline/recorder.h"

namespace cuflash::bench {

using harness::check;
using timeline::Event;

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

}  // namespace cuflash::bench
