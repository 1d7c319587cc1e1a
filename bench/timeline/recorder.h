// Records kernels, and reads the recording.
#ifndef CUFLASH_BENCH_TIMELINE_RECORDER_H_
#define CUFLASH_BENCH_TIMELINE_RECORDER_H_

#include <vector>

#include "device/instruments/timeline/log.h"
#include "harness/owners.h"

namespace cuflash::bench {

class Recorder {
 public:
  Recorder();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Records later kernels on this SM or, with timeline::kEverySm, on all SMs; the log must then not
  // be read, because the SMs share its rings. The device must be idle.
  void begin(unsigned sm);
  // The events recorded since begin(), in any order. Waits for the kernels.
  std::vector<timeline::Event> events() const;

 private:
  harness::DeviceBuffer log_;
};

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_TIMELINE_RECORDER_H_
