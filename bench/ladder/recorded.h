// Earlier measurements on a GPU, from docs/results.
#ifndef CUFLASH_BENCH_LADDER_RECORDED_H_
#define CUFLASH_BENCH_LADDER_RECORDED_H_

#include <string>
#include <vector>

#include "cuflash/stage.h"

namespace cuflash::bench {

// Two stages' times of one problem, from one run.
struct RecordedTimes {
  std::string device, commit, date, file;  // the file's path in the repository
  std::string problem;
  double first_ms, second_ms;
};

// Every problem for which a docs/results/*/ladder.json has times for both stages.
std::vector<RecordedTimes> recorded_times(const Stage& first, const Stage& second, Pass pass);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_RECORDED_H_
