// One row of the ladder: a stage verified on a problem, and counted or timed.
#ifndef CUFLASH_BENCH_MEASURE_H_
#define CUFLASH_BENCH_MEASURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "harness/inputs.h"
#include "harness/traffic.h"

namespace cuflash::bench {

// What the ladder does with every stage.
struct Plan {
  Problem verified;  // checked against the oracle, with the inputs of `source`
  harness::InputSource source;
  std::optional<Problem> timed;  // on a GPU, with N(0, 1) inputs
};

// What the CPU machine counted: requested bytes, before any cache.
struct Counted {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t bank_conflicts = 0;
};

struct Row {
  const Stage* stage = nullptr;
  Pass pass = Pass::kForward;

  std::string skipped;  // a sentence if the stage cannot run the problem; all below is then empty
  bool ok = false;      // the results are right, and the machine found nothing
  std::string failure;  // sentences if not
  double error = 0., limit = 0.;  // of the output that comes closest to its limit
  std::optional<Counted> counted;
  std::optional<harness::Traffic> predicted;

  std::optional<double> ms;  // of plan.timed
  std::string not_timed;     // a sentence if there is no time
};

Row measure(const Stage& stage, Pass pass, const Plan& plan);

// Device memory beside the tensors of the problem: LSE and the stage's workspace.
std::size_t extra_bytes(const Stage& stage, Pass pass, const Problem& problem);

// Teraflops a second, FLOPs by the field's convention.
double tflops(Pass pass, const Problem& problem, double ms);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_MEASURE_H_
