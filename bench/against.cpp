// Times a stage of two builds of the library in pairs: scripts/run.sh --against.
//   against STAGE BEFORE NOW
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuflash/workload.h"
#include "library_stage.h"
#include "measure.h"
#include "paired.h"
#include "program.h"
#include "progress.h"
#include "table.h"

namespace cuflash::bench {
namespace {

constexpr int kTokens = 16384, kHidden = 2048;

struct Options {
  std::string stage, before, now;
};

struct Cell {
  Pass pass;
  harness::TestCase c;

  std::string name() const { return fmt::format("{} {}", pass_name(pass), test_case_name(c)); }
};

// The field's matrix, in part.
std::vector<Problem> problems_of(const PassFacts& facts) {
  std::vector<Problem> problems;
  for (const int head_dim : {64, 128}) {
    const int heads = kHidden / head_dim;
    for (const int seq : {1024, 4096, 16384}) {
      if (seq > kLongestOfQuadratic && facts.keeps_scores) continue;
      for (const bool causal : {false, true}) {
        problems.push_back({kTokens / seq, heads, heads, seq, seq, head_dim, CUFLASH_F16, causal,
                            default_scale(head_dim)});
      }
    }
  }
  return problems;
}

// The problems of each pass that the stage has, in each order of additions that it supports.
std::vector<Cell> cells_of(const Stage& stage) {
  std::vector<Cell> cells;
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    const PassFacts& facts = stage.facts(pass);
    for (const bool deterministic : {true, false}) {
      const bool fixed = facts.features.has(Feature::kDeterministic);
      if (!stage.has(pass) || !(deterministic ? fixed : facts.any_order)) continue;
      for (const Problem& problem : problems_of(facts)) {
        Cell& cell = cells.emplace_back(Cell{pass, {problem, {}, {}}});
        cell.c.options.guards = false;
        cell.c.options.deterministic = deterministic;
      }
    }
  }
  return cells;
}

Paired time(const Stage& before, const Stage& now, const Cell& cell) {
  const Progress progress("Timing " + cell.name());
  harness::StageCall call(before, cell.pass, cell.c.problem,
                          unchecked_inputs(cell.pass, {cell.c.problem, {}, {}}), cell.c.options);
  return compare([&](const harness::Stream& stream) { call.queue(stream, before); },
                 [&](const harness::Stream& stream) { call.queue(stream, now); });
}

// Returns the exit status: 1 if a problem takes longer now, or if nothing ran.
int run(const Options& options, const Provenance& where) {
  const Stage* const stage = find_stage(options.stage);
  if (stage == nullptr) throw UsageError("There is no stage \"" + options.stage + "\".");
  if (current_device().compute_capability == 0) {
    throw std::runtime_error("There is no CUDA device here.");
  }
  const Stage before = library_stage(0, options.before, stage->name);
  const Stage now = library_stage(1, options.now, stage->name);
  Table table({{"problem", false},
               {"before"},
               {"now"},
               {"now / before"},
               {"±"},
               {"of cycles", true, 0, 0, 1},
               {"", false}});
  bool ran = false, slower = false;
  for (const Cell& cell : cells_of(*stage)) {
    Support can = library_supports(0, cell.pass, cell.c.problem);
    if (can) can = library_supports(1, cell.pass, cell.c.problem);
    if (!can) {
      table.add_sentence(cell.name(), "skipped: " + can.reason);
      continue;
    }
    const auto [ms, cycles] = time(before, now, cell);
    const bool longer = is_slower(ms.value, ms.spread);
    table.add({cell.name(), human_ms(ms.a), human_ms(ms.b), fmt::format("{:.3f}", ms.value),
               fmt::format("{:.3f}", ms.spread), fmt::format("{:.3f}", cycles.value),
               longer ? "slower" : ""});
    ran = true;
    slower |= longer;
  }
  fmt::print("{}\n{}{}", table.text(), paragraph(fmt::format("Time: {}.", kPairedMethod)),
             paragraph(fmt::format("{}, driver {}, CUDA {}, now {}, {}.", where.device,
                                   where.driver, where.cuda, where.commit, where.date)));
  return ran && !slower ? 0 : 1;
}

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  CLI::App app("Compares the times of a stage in two builds of the library.");
  cuflash::bench::Options options;
  app.add_option("STAGE", options.stage, "The stage's name")->required();
  app.add_option("BEFORE", options.before, "A build's libcuflash_attn.so")->required();
  app.add_option("NOW", options.now, "The other build's libcuflash_attn.so")->required();
  return cuflash::bench::run_program(app, argc, argv,
                                     [&](const auto& where) { return run(options, where); });
}
