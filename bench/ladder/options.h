// The ladder's command line.
#ifndef CUFLASH_BENCH_LADDER_OPTIONS_H_
#define CUFLASH_BENCH_LADDER_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "measure.h"
#include "program.h"

namespace cuflash::bench {

struct Options {
  std::string stage, shape, timed, dtype, pass = "both", input, schedule, block, json;
  std::string annotate, map;
  std::vector<std::string> compare, play;
  bool causal = false, list = false, text = false;
};

void declare(CLI::App& app, Options& options);

// The functions below throw a UsageError for a wrong command line.

// The problem to verify and, on a GPU, the problem to time. `dtype` is the default of the options.
Plan make_plan(const Options& options, DType dtype = CUFLASH_F16);

// True if --play names a file that --json has written.
bool plays_file(const Options& options);

// The stage with this name or number.
const Stage& stage_of(const std::string& name);

// The requested passes.
std::vector<Pass> passes_of(const Options& options);

// Sets the CPU simulator's schedule and the block whose findings are kept.
void set_up_simulator(const Options& options);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_OPTIONS_H_
