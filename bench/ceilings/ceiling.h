// A ceiling: the most that one unit of a GPU does in a second, and the loop that measures it.
#ifndef CUFLASH_BENCH_CEILINGS_CEILING_H_
#define CUFLASH_BENCH_CEILINGS_CEILING_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ceilings/rates.h"
#include "cuflash/stage.h"
#include "harness/owners.h"

namespace cuflash::bench {

// The GPU.
struct Chip {
  int compute_capability = 0;  // 10·major + minor
  int sms = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes = 0;  // the most that a block may ask for
};

// A loop with its buffers, ready for any number of launches.
struct Loop {
  std::vector<Work> work;  // of one launch
  std::function<void(const harness::Stream&)> queue;
  // The clocks that the last launch's loop took, the mean of all SMs. Empty if the loop waits for
  // memory outside the SMs.
  std::function<double()> clocks = nullptr;
};

struct Ceiling {
  std::string name;
  std::string what;      // a few words for tables
  ArchRequirement arch;  // what its instructions need
  std::function<Loop(const Chip&)> loop;
};

// The list, in the order of the table. Needs no GPU.
const std::vector<Ceiling>& ceilings();

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_CEILING_H_
