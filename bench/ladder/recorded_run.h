// The run of one block of a stage on a small problem, in steps.
//
// The clock is logical. __syncthreads() divides a run into intervals; within an interval each warp
// has an order of its own, and warps are side by side: which of them came first is not known,
// unless one waits at a barrier for the other. A step is what each warp does at its k-th source
// line of an interval; a wait is later than what it waits for.
#ifndef CUFLASH_BENCH_LADDER_RECORDED_RUN_H_
#define CUFLASH_BENCH_LADDER_RECORDED_RUN_H_

#include <string>
#include <utility>
#include <vector>

#include "cuflash/stage.h"
#include "harness/test_case.h"
#include "simt/simulator.h"

namespace cuflash::bench {

// What some warps do in a step: the events [first, end) of each, all at the same lines.
struct StepPart {
  struct Events {
    int warp, first, end;
  };
  std::vector<int> places;  // of the run: one line, or those of a loop's body in turn
  int times = 1;            // how often the loop's body runs
  std::vector<Events> warps;
};

struct Step {
  int interval = 0;
  simt::WarpTile tile;
  std::string paper;  // the paper's lines that it belongs to: "[FA2 Alg.1 l.8]  S = Q_i K_jᵀ"
  std::vector<StepPart> parts;
};

// What a line of text or a place in the page says of some events.
struct StepCounts {
  std::uint64_t requests = 0, bytes = 0, global_requests = 0, sectors = 0;
  std::uint64_t shared_requests = 0, wavefronts = 0, conflicts = 0;
};
StepCounts counts_of(const simt::BlockRun& run, const StepPart& part);

// What the registers of each query of the first head hold after one KV tile, as the reference
// computes it: a kernel's own may have another unit.
struct SoftmaxRows {
  int tile;
  std::vector<double> row_max, row_sum, o_scale;
};

// An asynchronous copy or product of a warp, from the step of its issue to that of the wait that
// covers it, or to the last.
struct Flight {
  simt::WarpEvent::Kind kind;  // kCopyWrite, kBoxCopy, kBoxStore, kBoxAdd or kProduct
  int warp, from, to;
  int array;  // in shared memory; -1: a product's
};

struct RecordedLaunch {
  simt::BlockRun run;
  std::vector<Step> steps;
  std::vector<Flight> flights;
  std::vector<std::vector<int>> phases;  // of each barrier: the steps of the last arrivals
  std::vector<SoftmaxRows> rows;         // in the order of its KV tiles; empty: no running softmax
};

struct RecordedRun {
  const Stage* stage;
  Pass pass;
  harness::TestCase problem;
  std::vector<RecordedLaunch> launches;
  std::vector<simt::Finding> findings;
};

// A problem with one block, as far as the stage's grid allows that, and with two whole tiles and a
// ragged one of each sequence that a block streams. The sizes of its tiles are found by running it.
// Of two stages: the larger of both.
harness::TestCase small_case(const std::vector<const Stage*>& stages, Pass pass, DType dtype,
                             bool causal);

// Runs the stage once. Throws a sentence if it cannot run the case, or if no CPU simulator counts.
RecordedRun record(const Stage& stage, Pass pass, const harness::TestCase& c);

std::vector<Flight> flights_of(const simt::BlockRun& run, const std::vector<Step>& steps);
std::vector<std::vector<int>> phases_of(const simt::BlockRun& run, const std::vector<Step>& steps);

// For the KV tiles in this order; empty if it is not known how long the stage's tiles are.
std::vector<SoftmaxRows> softmax_rows(const Stage& stage, const harness::TestCase& c,
                                      const std::vector<int>& order);

// The runs as JSON, which docs/player/README.md describes.
std::string runs_json(const std::vector<RecordedRun>& runs);
// True if the text is such JSON, of this version.
bool is_runs_json(const std::string& text);

// A page that plays the runs of such a JSON text. Only for the CPU simulator.
std::string runs_page(const std::string& json);

// The steps as text, a line each, as wide as the terminal.
std::string run_text(const RecordedRun& run);
std::string run_legend();

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_RECORDED_RUN_H_
