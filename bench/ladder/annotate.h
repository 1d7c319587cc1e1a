// A stage's source with the memory requests of each line.
#ifndef CUFLASH_BENCH_LADDER_ANNOTATE_H_
#define CUFLASH_BENCH_LADDER_ANNOTATE_H_

#include <string>
#include <vector>

#include "simt/machine.h"

namespace cuflash::bench {

// Every source file that has counts, whole, as wide as the terminal.
std::string annotated_sources(const std::vector<simt::LineCounts>& lines);

// The meanings of the columns, and their best values.
std::string annotation_legend();

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_ANNOTATE_H_
