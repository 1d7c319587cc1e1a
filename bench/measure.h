// One row of the ladder: a stage verified on a problem, and counted or timed.
#ifndef CUFLASH_BENCH_MEASURE_H_
#define CUFLASH_BENCH_MEASURE_H_

#include <optional>
#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "harness/test_case.h"
#include "harness/traffic.h"
#include "simt/simulator.h"

namespace cuflash::bench {

constexpr int kLongestOfQuadratic = 4096;  // queries, for stages that keep S

// The ladder's problems for every stage.
struct Plan {
  harness::TestCase verified;    // checked against the oracle
  std::optional<Problem> timed;  // on a GPU, with N(0, 1) inputs
};

// The share that a stage reaches of the rate that bounds its products.
struct CeilingShare {
  std::string ceiling;    // the name of a loop of `ceilings`
  double ceiling_tflops;  // measured in the same process
  double share;           // 1 is the whole rate
};

struct Row {
  const Stage* stage = nullptr;
  Pass pass = CUFLASH_FORWARD;

  std::string skipped;  // a sentence if the stage cannot run the problem; the rest is then empty
  bool ok = false;      // true if the results are right and the simulator found nothing
  std::string failure;  // sentences if not ok
  double error = 0., limit = 0.;        // of the output that comes closest to its limit
  std::optional<simt::Counts> counted;  // on the CPU simulator
  std::size_t shared_bytes = 0;         // maximum per block, on the CPU simulator
  std::optional<harness::Traffic> predicted;

  std::optional<double> ms;  // of plan.timed
  std::string not_timed;     // a sentence if there is no time
  std::optional<CeilingShare> of_ceiling;
};

Row measure(const Stage& stage, Pass pass, const Plan& plan);

// The stage's first pass: forward if it has one.
Pass pass_of(const Stage& stage);

// Device memory in addition to the problem's tensors: LSE and the stage's workspace.
std::size_t extra_bytes(const Stage& stage, Pass pass, const Problem& problem);

// Inputs for a call whose results are not checked, made without the oracle. Kept for the next call.
const harness::Inputs& unchecked_inputs(Pass pass, const harness::TestCase& c);

// TFLOP/s, with the operations of attention_flops().
double tflops(Pass pass, const Problem& problem, double ms);

// TFLOP/s of all products that a pass computes, repeated ones included. A mask counts as in
// attention_flops(): causal is half, even though the tiles of a kernel compute more.
double products_tflops(const PassFacts& facts, const Problem& problem, double ms);

// The loop of `ceilings` that computes only such products.
std::string ceiling_of(const PassFacts& facts, DType dtype);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_MEASURE_H_
