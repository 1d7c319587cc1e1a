// One check of a stage: the stage computes a case several times, each time with another order of
// threads, and its outputs are compared with the oracle's. On the CPU simulator the check also
// reports counts and findings.
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
  kOne,             // once, under the current schedule
  kOneUnlessFound,  // once, under the current schedule; all runs if that one finds a fault
};

struct Run {
  std::string schedule;  // "inorder", "reversed", "random:7"; on a GPU "run 1", "run 2"
  std::string error;     // a sentence if the stage failed; the outputs are then empty
  Outputs outputs;
  Accuracy accuracy;
  std::optional<simt::Counts> counts;  // where the simulator counts
  std::size_t shared_bytes = 0;        // maximum per block, on the CPU simulator

  bool right() const { return error.empty() && accuracy.ok(); }
};

// One fault that the CPU simulator found, in one run or in several.
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
  // The faults and wrong results, or, if there are none, bits that differ between runs. Empty if
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
