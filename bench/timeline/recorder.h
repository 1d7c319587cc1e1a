// Has kernels recorded, and reads what they wrote.
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

  // Kernels that are queued from now on are recorded where they run on this multiprocessor, or on
  // timeline::kEverySm: then the log is not to be read, since the multiprocessors share its rings.
  // The device must be idle.
  void begin(unsigned sm);
  // What was recorded since, in any order. Waits for the kernels.
  std::vector<timeline::Event> events() const;

 private:
  harness::DeviceBuffer log_;
};

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_TIMELINE_RECORDER_H_
