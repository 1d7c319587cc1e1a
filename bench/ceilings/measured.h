// Measures ceilings on the current GPU.
#ifndef CUFLASH_BENCH_CEILINGS_MEASURED_H_
#define CUFLASH_BENCH_CEILINGS_MEASURED_H_

#include <string>
#include <vector>

#include "ceilings/ceiling.h"

namespace cuflash::bench {

// The current GPU.
Chip this_chip();

// The figures of a ceiling; one that says why there are none, if the GPU cannot run the loop.
std::vector<Figure> measured(const Ceiling& ceiling, const Chip& chip);

// The first figure of the ceiling with this name, measured in the first call that names it. A name
// that is not in the list counts as skipped.
Figure measured_once(const std::string& name);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_MEASURED_H_
