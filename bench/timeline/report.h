// The JSON of `timeline`.
#ifndef CUFLASH_BENCH_TIMELINE_REPORT_H_
#define CUFLASH_BENCH_TIMELINE_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "provenance.h"
#include "timeline/recording.h"

namespace cuflash::bench {

// A problem whose kernel was recorded.
struct Timeline {
  std::string problem;
  double recorded_ms = 0.;  // of a call that is recorded on every SM
  double clock_ghz = 0.;
  std::vector<RecordedBlock> blocks;  // the shown ones
};

// The file of a stage, for spans.py. An event is a text: line of the kernel's file, kind, first and
// last cycle, data. Each warpgroup has the events of its first warp.
nlohmann::ordered_json report(const Provenance& provenance, const std::string& stage,
                              const std::vector<Timeline>& timelines);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_TIMELINE_REPORT_H_
