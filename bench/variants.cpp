// Compares stages with the first of them on a list of problems: each is checked on a small problem
// of the same kind, then the correct ones are timed in pairs with the first. scripts/maintainer/
// variants.py builds it with the variants of a stage among its stages.
#include <cuda_runtime.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cuflash/workload.h"
#include "harness/owners.h"
#include "harness/stage_call.h"
#include "json_file.h"
#include "measure.h"
#include "paired.h"
#include "program.h"
#include "progress.h"

namespace cuflash::bench {
namespace {

using harness::TestCase;

struct Options {
  std::vector<std::string> stages, cases;
  std::string json;
};

// The outcome of a stage on a problem: a sentence, or times. The CPU simulator gives no time.
struct Outcome {
  const Stage* stage;
  std::string failed;
  Paired beside = {};  // B is this stage, A the first; empty for the first itself
};

std::vector<const Stage*> stages_of(const Options& options) {
  std::vector<const Stage*> chosen;
  for (const std::string& name : options.stages) {
    const Stage* stage = find_stage(name);
    if (stage == nullptr) throw std::runtime_error("There is no stage \"" + name + "\".");
    chosen.push_back(stage);
  }
  return chosen;
}

// A problem, and whether its calls must give the same bits in every run. bench/peers times calls of
// both kinds.
struct Cell {
  std::string name;
  TestCase c;
  bool deterministic;
};

Cell cell_of(const std::string& name) {
  const std::string word = "_deterministic";
  const std::size_t end = name.rfind(word);
  const bool deterministic = end != std::string::npos && end + word.size() == name.size();
  Cell cell = {name, {}, deterministic};
  cell.c.problem.dtype = CUFLASH_F16;
  if (!parse_test_case(deterministic ? name.substr(0, end) : name, cell.c)) {
    throw std::runtime_error('"' + name + "\" is not a shape.");
  }
  return cell;
}

// A problem of the same kind that the oracle computes in a moment, with more tiles of keys than
// buffers, and a last tile that is not full.
TestCase small(TestCase c) {
  Problem& p = c.problem;
  p.batch = 1;
  p.heads_q = std::max(1, p.heads_q / p.heads_kv), p.heads_kv = 1;
  p.seq_q = std::min(p.seq_q, 300), p.seq_kv = std::min(p.seq_kv, 700);
  return c;
}

// Throws if the device is unusable after this stage.
Outcome checked(const Stage& stage, const TestCase& c) {
  const Row row = measure(stage, pass_of(stage), {c, {}});
  harness::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  if (!row.failure.empty()) fmt::print(stderr, "{}\n", row.failure);
  return {&stage, row.skipped.empty() && !row.ok ? "wrong results" : row.skipped};
}

void time(std::vector<Outcome>& outcomes, const Cell& cell) {
  const Progress progress("Timing " + cell.name);
  const Stage& first = *outcomes.front().stage;
  const Pass pass = pass_of(first);
  harness::CallOptions options = cell.c.options;
  options.guards = false;
  options.deterministic = cell.deterministic;
  harness::StageCall call(first, pass, cell.c.problem,
                          unchecked_inputs(pass, {cell.c.problem, {}, {}}), options);
  const Queue of_first = [&](const harness::Stream& stream) { call.queue(stream); };
  for (Outcome& outcome : outcomes) {
    if (!outcome.failed.empty()) continue;
    const Queue of_this = [&](const harness::Stream& stream) {
      if (outcome.stage != &first) call.queue(stream, *outcome.stage);
    };
    if constexpr (!simt::kSimulated) outcome.beside = compare(of_first, of_this);
  }
}

nlohmann::ordered_json to_json(const Outcome& outcome, const Cell& cell, bool first) {
  const Pass pass = pass_of(*outcome.stage);
  const Paired& beside = outcome.beside;
  nlohmann::ordered_json row = {
      {"stage", outcome.stage->name},
      {"pass", pass_name(pass)},
      {"problem", simt::kSimulated ? test_case_name(small(cell.c)) : cell.name}};
  if (!outcome.failed.empty()) {
    row["failed"] = outcome.failed;
  } else if (!simt::kSimulated) {
    row["tflops"] = tflops(pass, cell.c.problem, first ? beside.ms.a : beside.ms.b);
    if (!first) {
      row["ratio"] = beside.ms.value;
      row["spread"] = beside.ms.spread;
      row["cycles_ratio"] = beside.cycles.value;
      row["cycles_spread"] = beside.cycles.spread;
    }
  }
  return row;
}

// The result rows of a problem.
nlohmann::ordered_json run(const std::vector<const Stage*>& stages, const Cell& cell) {
  std::vector<Outcome> outcomes;
  for (const Stage* stage : stages) outcomes.push_back(checked(*stage, small(cell.c)));
  if (const Outcome& first = outcomes.front(); !first.failed.empty()) {
    throw std::runtime_error(std::string(first.stage->name) + ": " + first.failed);
  }
  if (!simt::kSimulated) time(outcomes, cell);
  auto rows = nlohmann::ordered_json::array();
  for (const Outcome& outcome : outcomes) {
    rows.push_back(to_json(outcome, cell, &outcome == &outcomes.front()));
  }
  return rows;
}

void run(const Options& options, const Provenance& provenance) {
  if (current_device().compute_capability == 0) {
    throw std::runtime_error("There is no CUDA device here.");
  }
  const auto stages = stages_of(options);
  nlohmann::ordered_json json = {{"provenance", to_json(provenance)}};
  if (!simt::kSimulated) json["provenance"]["timing"] = kPairedMethod;
  json["rows"] = nlohmann::ordered_json::array();
  for (const std::string& name : options.cases) {
    for (auto& row : run(stages, cell_of(name))) {
      fmt::print("{}\n", row.dump());
      json["rows"].push_back(std::move(row));
    }
  }
  write_json(options.json, json);
}

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  CLI::App app(
      "Checks a pass of each stage, the forward pass if it has one, and times it in pairs with "
      "the first stage.");
  cuflash::bench::Options options;
  app.add_option("--stages", options.stages, "The stages' full names")->required();
  app.add_option("--shapes", options.cases,
                 "Problems as for the ladder; _deterministic makes the calls deterministic")
      ->required();
  app.add_option("--json", options.json, "The file for the results")->required();
  return cuflash::bench::run_program(app, argc, argv, [&](const auto& provenance) {
    cuflash::bench::run(options, provenance);
    return 0;
  });
}
