// Compares a stage with another.
#ifndef CUFLASH_BENCH_LADDER_COMPARE_H_
#define CUFLASH_BENCH_LADDER_COMPARE_H_

#include <string>

#include "measure.h"

namespace cuflash::bench {

// Compares two measured rows of one pass: each quantity with both values and their ratio, then the
// times: those of the plan, and those that docs/results has. A stage's row and itself: each
// committed number of the stage beside the measured one.
std::string comparison_text(const Row& first, const Row& second, const Plan& plan);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_COMPARE_H_
