// Measures ceilings on the current GPU.
#ifndef CUFLASH_BENCH_CEILINGS_MEASURED_H_
#define CUFLASH_BENCH_CEILINGS_MEASURED_H_

#include <string>
#include <vector>

#include "ceilings/ceiling.h"

namespace cuflash::bench {

// The current GPU.
Chip this_chip();

// The figures of a ceiling. If the GPU cannot run the loop, one figure with the reason.
std::vector<Figure> measured(const Ceiling& ceiling, const Chip& chip);

// The first figure of the ceiling with this name, measured at its first use. An unknown name counts
// as skipped.
Figure measured_once(const std::string& name);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_MEASURED_H_
