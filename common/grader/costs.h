// Holds bytes, bank conflicts, requests of shared memory and barriers to the stage's own.
#ifndef CUFLASH_GRADER_COSTS_H_
#define CUFLASH_GRADER_COSTS_H_

#include "access_history.h"
#include "sample.h"
#include "simt/machine.h"

namespace cuflash::exercises {

// Also tells what a block reads that the same block of the stage does not.
std::vector<Diagnosis> excess_bytes(const std::vector<Sample>& samples, const Stage& exercise,
                                    const Stage& own);
// Where the rows of the tiles that a line names lie in the banks: of those of which each lane takes
// a row of its own, if there are any.
std::string banks_of_rows(const std::string& line, const std::vector<simt::SharedMap>& maps);
// Two lanes that meet in a bank, of the first 8 that access 16 bytes of halves each at once; "" if
// none do.
std::string meeting_lanes(const std::vector<Event>& events);
std::vector<Diagnosis> excess_conflicts(const std::vector<Sample>& samples, const Stage& exercise);
std::vector<Diagnosis> excess_shared_loads(const std::vector<Sample>& samples);
// Also names the barriers of the exercise without which the simulator finds nothing wrong.
std::vector<Diagnosis> excess_barriers(const std::vector<Sample>& samples, const Stage& exercise);
std::vector<Diagnosis> lost_overlap(const std::vector<Sample>& samples);
// Of a stage whose blocks wait for each other.
std::vector<Diagnosis> missing_waits(const std::vector<Sample>& samples);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_COSTS_H_
