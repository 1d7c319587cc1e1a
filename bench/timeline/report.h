// The JSON of `timeline`.
#ifndef CUFLASH_BENCH_TIMELINE_REPORT_H_
#define CUFLASH_BENCH_TIMELINE_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "provenance.h"
#include "timeline/recording.h"

namespace cuflash::bench {

// A problem whose kernel was recorded.
struct Timeline {
  std::string problem;
  double recorded_ms = 0.;         // of a call that is recorded on every multiprocessor
  std::optional<double> plain_ms;  // of one in the ordinary build
  double clock_ghz = 0.;
  std::vector<RecordedBlock> blocks;  // that are shown
};

// The file of a stage. `kernel` holds the lines of its kernel's file. An event is a text: line,
// kind, first and last cycle, data. Of each warpgroup there are the events of its first warp.
nlohmann::ordered_json report(const Provenance& provenance, const std::string& stage,
                              unsigned globaltimer_step, const std::vector<std::string>& kernel,
                              const std::vector<Timeline>& timelines);

// The time of a stage's pass in files of `ladder --json`, if one of them has it.
std::optional<double> ladder_ms(const std::vector<std::string>& files, const std::string& stage,
                                Pass pass, const std::string& problem);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_TIMELINE_REPORT_H_
