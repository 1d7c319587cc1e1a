// One check of a stage: it computes a case more than once, each time in another order of threads,
// and is held to what it must compute. On the CPU simulator the check also says what was counted
// and found.
#ifndef CUFLASH_HARNESS_STAGE_CHECK_H_
#define CUFLASH_HARNESS_STAGE_CHECK_H_

#include <optional>
#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "harness/accuracy.h"
#include "harness/test_case.h"
#include "simt/simulator.h"

namespace cuflash::harness {

enum class Runs {
  kAll,             // on the CPU simulator under three schedules, on a GPU twice
  kOneUnlessFound,  // once, under the schedule in force; where that finds a fault, all
};

struct Run {
  std::string schedule;  // "inorder", "reversed", "random:7"; on a GPU "run 1", "run 2"
  std::string error;     // a sentence if the stage failed; the outputs are then empty
  Outputs outputs;
  Accuracy accuracy;
  std::optional<simt::Counts> counts;  // where the simulator counts
  std::size_t shared_bytes = 0;        // most shared memory of a block, on the CPU simulator

  bool right() const { return error.empty() && accuracy.ok(); }
};

// What the CPU simulator found, once for all runs.
struct Fault {
  simt::Finding finding;
  std::vector<std::string> schedules;  // under which it was found
  std::string message;                 // the whole report, and the command that replays it
};

struct StageCheck {
  std::vector<Run> runs;
  std::vector<Fault> faults;
  std::string unstable;  // a sentence if runs of a deterministic stage differ in a bit
  std::string
      replay;  // the command that shows the first wrong result again; empty if all are right

  bool ok() const;
  // What is wrong: faults, results, and where there are none of these bits that differ. Empty if
  // ok().
  std::string failures() const;
};

// Throws CudaError if the device has too little memory for the case, and an exception if the inputs
// cannot be made. Leaves the simulator's schedule as it was.
StageCheck check_stage(const Stage& stage, Pass pass, const TestCase& c, Runs runs);

// "scores" for "cuflash::naive::scores<float, 32>".
std::string short_kernel_name(const std::string& kernel);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_STAGE_CHECK_H_
