// Committed measurements, from docs/results.
#ifndef CUFLASH_BENCH_LADDER_RECORDED_H_
#define CUFLASH_BENCH_LADDER_RECORDED_H_

#include <map>
#include <string>
#include <vector>

#include "cuflash/stage.h"

namespace cuflash::bench {

// What a file says of a stage and a problem.
struct RecordedRow {
  std::string device, commit, date, file;  // the file's path in the repository
  std::string problem;
  std::map<std::string, double> numbers;  // by their names in the file, such as "ms"
};

// The stage's rows of every docs/results/*/ladder.json.
std::vector<RecordedRow> recorded_rows(const Stage& stage, Pass pass);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_RECORDED_H_
