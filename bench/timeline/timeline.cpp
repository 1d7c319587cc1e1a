// Records what the warps of one SM do over time during a stage's forward pass, or its backward pass
// if it has no other. Only in builds with CUFLASH_TIMELINE.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "harness/stage_check.h"
#include "json_file.h"
#include "measure.h"
#include "program.h"
#include "timeline/recorder.h"
#include "timeline/report.h"
#include "timing.h"

namespace cuflash::bench {
namespace {

// Any SM suffices, because a grid of many blocks fills all of them.
constexpr unsigned kSm = 0;

struct Options {
  std::string stage, json;
  std::vector<std::string> shapes;
};

void declare(CLI::App& app, Options& options) {
  app.add_option("--stage", options.stage, "Name or number")->required();
  app.add_option("--shape", options.shapes, "A problem; may be given several times")->required();
  app.add_option("--json", options.json, "The file for the timelines")
      ->option_text("FILE")
      ->required();
}

const Stage& stage_of(const Options& options) {
  if (const Stage* stage = find_stage(options.stage)) return *stage;
  throw std::runtime_error("There is no stage \"" + options.stage + "\".");
}

harness::TestCase case_of(const std::string& shape) {
  harness::TestCase c;
  if (!harness::parse_test_case(shape, c))
    throw std::runtime_error(shape + " is not a problem's name.");
  return c;
}

void verify(const Stage& stage, const harness::TestCase& c) {
  const auto check = check_stage(stage, pass_of(stage), c, harness::Runs::kOneUnlessFound);
  if (!check.ok()) throw std::runtime_error(check.failures());
}

Timeline record(Recorder& recorder, const Stage& stage, const harness::TestCase& c) {
  const Pass pass = pass_of(stage);
  const Support support = supports(stage, pass, c.problem, current_device(), c.options.features());
  if (!support) throw std::runtime_error(support.reason);
  Timeline made;
  made.problem = problem_name(c.problem);
  harness::CallOptions options;
  options.guards = false;
  harness::StageCall call(stage, pass, c.problem, unchecked_inputs(pass, c), options);
  recorder.begin(timeline::kEverySm);
  verify(stage, c);
  made.recorded_ms = median_ms(call);

  recorder.begin(kSm);
  const harness::Stream stream;
  call.queue(stream);
  stream.synchronize();
  const auto blocks = blocks_of(recorder.events());
  made.clock_ghz = clock_ghz(blocks);
  made.blocks = in_the_middle(blocks);
  return made;
}

void run(const Options& options, const Provenance& provenance) {
  const Stage& stage = stage_of(options);
  if (current_device().compute_capability == 0) {
    throw std::runtime_error("There is no CUDA device here.");
  }
  Recorder recorder;
  std::vector<Timeline> timelines;
  for (const std::string& shape : options.shapes) {
    const Timeline made = timelines.emplace_back(record(recorder, stage, case_of(shape)));
    fmt::print("{}: {} blocks, {:.2f} GHz, {:.3f} ms recorded\n", made.problem, made.blocks.size(),
               made.clock_ghz, made.recorded_ms);
  }
  write_json(options.json, report(provenance, stage.name, timelines));
}

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  CLI::App app("Records what the warps of one SM do over time.");
  cuflash::bench::Options options;
  cuflash::bench::declare(app, options);
  return cuflash::bench::run_program(app, argc, argv, [&](const auto& provenance) {
    cuflash::bench::run(options, provenance);
    return 0;
  });
}
