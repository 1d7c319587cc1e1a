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
  std::string stage, shape, dtype, pass = "both", input, schedule, block, json;
  std::string annotate, map;
  std::vector<std::string> compare, play;
  bool causal = false, list = false, text = false;
};

void declare(CLI::App& app, Options& options);

// The functions below throw a UsageError if the command line makes no sense.

// What to verify and, on a GPU, what to time. `dtype` is used if the options name none.
Plan make_plan(const Options& options, DType dtype = CUFLASH_F16);

// True if --play names a file that --json has written.
bool plays_file(const Options& options);

// The stage with this name or number.
const Stage& stage_of(const std::string& name);

// The passes that the user asks for.
std::vector<Pass> passes_of(const Options& options);

// Tells the CPU simulator the schedule, and the block whose findings are wanted.
void set_up_simulator(const Options& options);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_OPTIONS_H_
