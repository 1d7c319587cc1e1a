// Compares a stage with another.
#ifndef CUFLASH_BENCH_LADDER_COMPARE_H_
#define CUFLASH_BENCH_LADDER_COMPARE_H_

#include <string>

#include "measure.h"

namespace cuflash::bench {

// Compares two measured rows of one pass: each quantity with both values and their ratio. Includes
// the speed if it is known: timed with the plan, or recorded in docs/results.
std::string comparison_text(const Row& first, const Row& second, const Plan& plan);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_COMPARE_H_
