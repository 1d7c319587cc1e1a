// A ceiling: the peak rate of one unit of a GPU, and the loop that measures it.
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
  std::size_t shared_bytes = 0;  // the maximum that a block may request
};

// A loop with its buffers, ready for any number of launches.
struct Loop {
  std::vector<Work> work;  // of one launch
  std::function<void(const harness::Stream&)> queue;
  // The cycles of the last launch's loop, as the mean of all SMs. Empty if the loop waits for
  // memory outside the SMs.
  std::function<double()> clocks = nullptr;
};

struct Ceiling {
  std::string name;
  std::string what;      // a short description for tables
  ArchRequirement arch;  // of its instructions
  std::function<Loop(const Chip&)> loop;
};

// The ceilings in the order of the table. Needs no GPU.
const std::vector<Ceiling>& ceilings();

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_CEILING_H_
