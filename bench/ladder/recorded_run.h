// The run of one block of a stage on a small problem, in steps.
//
// The clock is logical. __syncthreads() divides a run into intervals. Within an interval only the
// events of one warp are ordered, unless a warp waits at a barrier for another. A step contains
// each warp's k-th source line of an interval; a wait is later than the arrival that it waits for.
// A race also has an order of its own, in which one sees it.
#ifndef CUFLASH_BENCH_LADDER_RECORDED_RUN_H_
#define CUFLASH_BENCH_LADDER_RECORDED_RUN_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuflash/stage.h"
#include "harness/test_case.h"
#include "simt/simulator.h"

namespace cuflash::bench {

// A part of a step: the events [first, end) of some warps, all at the same lines.
struct StepPart {
  struct Events {
    int warp, first, end;
  };
  std::vector<int> places;  // of the run: one line, or the lines of a loop's body
  int times = 1;            // iterations of the loop's body
  std::vector<Events> warps;
};

struct Step {
  int interval = 0;
  simt::WarpTile tile;
  std::string paper;  // its lines in the paper: "[FA2 Alg.1 l.8]  S = Q_i K_jᵀ"
  std::vector<StepPart> parts;
};

// The counts of some events, for a line of text or a place in the page.
struct StepCounts {
  std::uint64_t requests = 0, bytes = 0, global_requests = 0, sectors = 0;
  std::uint64_t shared_requests = 0, wavefronts = 0, conflicts = 0;
};
StepCounts counts_of(const simt::BlockRun& run, const StepPart& part);

// The softmax state of each query of the first head after one KV tile, computed by the reference. A
// kernel's registers may have another unit.
struct SoftmaxRows {
  int tile;
  std::vector<double> row_max, row_sum, o_scale;
};

// An asynchronous copy or product of a warp, from the step of its issue to the step of the wait
// that covers it, or to the last step.
struct Flight {
  simt::WarpEvent::Kind kind;  // kCopyWrite, kBoxCopy, kBoxStore, kBoxAdd or kProduct
  int warp, from, to;
  int array;  // in shared memory; -1: a product's
};

struct Timeline {
  std::vector<Step> steps;
  std::vector<Flight> flights;
  std::vector<std::vector<int>> phases;  // of each barrier: the steps of the last arrivals
};

struct RecordedLaunch {
  simt::BlockRun run;
  Timeline clock;
  std::vector<SoftmaxRows> rows;  // in the order of its KV tiles; empty: no running softmax
};

// An order of a launch in which a race happens: one of its accesses overtakes the other. Each
// warp's own order is kept, and so are all barriers.
struct Overtaking {
  Timeline order;
  std::size_t launch;
  int first, second;  // the steps of the two accesses, as in the report
};

struct RecordedFinding : simt::Finding {
  std::optional<Overtaking> overtaking;  // of a race between two warps of the recorded block
};

struct RecordedRun {
  const Stage* stage;
  Pass pass;
  harness::TestCase problem;
  std::vector<RecordedLaunch> launches;
  std::vector<RecordedFinding> findings;
};

// A problem with one block, if the stage's grid allows that, and with two whole tiles and a ragged
// one of each sequence that a block streams. The sizes of the tiles are found by running the stage.
// For two stages, the larger problem of both.
harness::TestCase small_case(const std::vector<const Stage*>& stages, Pass pass, DType dtype,
                             bool causal);

// Runs the stage once. Throws a sentence if it cannot run the case, or if this build counts no
// accesses.
RecordedRun record(const Stage& stage, Pass pass, const harness::TestCase& c);

std::vector<Flight> flights_of(const simt::BlockRun& run, const std::vector<Step>& steps);
std::vector<std::vector<int>> phases_of(const simt::BlockRun& run, const std::vector<Step>& steps);

// For the KV tiles in this order; empty if the length of the stage's tiles is unknown.
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
