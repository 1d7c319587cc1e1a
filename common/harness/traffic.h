// The memory traffic of each stage, as a closed formula of the problem.
//
// "Requested" bytes are what the threads ask for, before any cache. The CPU simulator counts them;
// the tests hold each stage to its formula, and the ladder prints the formula beside the count.
#ifndef CUFLASH_HARNESS_TRAFFIC_H_
#define CUFLASH_HARNESS_TRAFFIC_H_

#include <cstdint>
#include <optional>

#include "cuflash/stage.h"

namespace cuflash::harness {

struct Traffic {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t bank_conflicts = 0;  // of shared memory: passes beyond the fewest possible
  bool exact = true;                 // false: upper bounds
};

// What a stage asks for when every output is wanted. Empty: the stage has no formula for this pass.
std::optional<Traffic> predicted_traffic(const Stage& stage, Pass pass, const Problem& problem);

// Pairs (query, key) of one head that the mask lets through.
std::uint64_t visible_pairs(const Problem& problem);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_TRAFFIC_H_
