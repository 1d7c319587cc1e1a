// The CPU simulator's counts of one call: every line's accesses, and the shared memory of each
// kernel.
#ifndef CUFLASH_BENCH_LADDER_OBSERVE_H_
#define CUFLASH_BENCH_LADDER_OBSERVE_H_

#include <vector>

#include "cuflash/stage.h"
#include "harness/test_case.h"
#include "simt/simulator.h"

namespace cuflash::bench {

struct Observed {
  std::vector<simt::LineCounts> lines;
  std::vector<simt::SharedMap> maps;
};

// Calls the stage once and checks no result. Throws a sentence if the stage cannot run the case, or
// if this build counts no accesses.
Observed observe(const Stage& stage, Pass pass, const harness::TestCase& c);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_OBSERVE_H_
