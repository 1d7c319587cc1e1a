// The ladder: every stage on one problem, checked against the oracle, in one table.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>

#include "harness/owners.h"
#include "report.h"
#include "table.h"
#include "timing.h"

namespace cuflash::bench {
namespace {

#ifdef CUFLASH_SIMT
constexpr bool kSimt = true;
#else
constexpr bool kSimt = false;
#endif

constexpr const char* kTimedShape =
    "b4_h32_q4096k4096_d64";  // The real input is too small to time.

struct Options {
  std::string stage, shape, dtype = "f16", pass = "both", input, schedule, json;
  bool causal = false, list = false;
};

void declare(CLI::App& app, Options& options) {
  app.get_formatter()->column_width(36);
  app.add_option("--stage", options.stage, "One stage, by name or number; otherwise all")
      ->option_text("NAME");
  auto* shape = app.add_option("--shape", options.shape,
                               "A problem with random inputs, e.g. b2_h4x1_q77k131_d64")
                    ->option_text("SHAPE");
  app.add_option("--input", options.input, "Where q.npy, k.npy and v.npy are; otherwise bench/data")
      ->option_text("DIR")
      ->excludes(shape);
  app.add_option("--dtype", options.dtype, "Default f16")
      ->option_text("f32|f16|bf16")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  app.add_flag("--causal", options.causal, "A query sees no key after it");
  app.add_option("--pass", options.pass, "Default both")
      ->option_text("forward|backward|both")
      ->check(CLI::IsMember({"forward", "backward", "both"}));
  app.add_option("--schedule", options.schedule, "Order of threads on the CPU machine")
      ->option_text("inorder|reversed|random:SEED");
  app.add_option("--json", options.json, "Also write the results to this file")
      ->option_text("FILE");
  app.add_flag("--list", options.list, "List the stages and stop");
}

void list_stages() {
  Table table(
      {{"stage", false}, {"adds", false, 52}, {"passes", false}, {"dtypes", false}, {"for"}});
  for (const Stage* stage : stages()) {
    std::string dtypes;
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      if (stage->dtypes.has(dtype))
        dtypes += (dtypes.empty() ? "" : " ") + std::string(dtype_name(dtype));
    }
    table.add(
        {stage->name, stage->teaches, stage->backward ? "forward backward" : "forward", dtypes,
         fmt::format("sm_{}{}", stage->arch.compute_capability, stage->arch.exact ? "a" : "+")});
  }
  fmt::print("{}", table.text());
}

Problem shape_problem(const std::string& shape, const Options& options) {
  Problem problem;
  parse_dtype(options.dtype, problem.dtype);
  problem.causal = options.causal;
  if (!parse_problem(shape, problem)) {
    throw std::runtime_error("'" + shape +
                             "' is not a shape; one is b2_h4x1_q77k131_d64: batch, "
                             "query heads x KV heads, lengths of Q and K, head_dim");
  }
  const Support valid = validate(problem);
  if (!valid) throw std::runtime_error(valid.reason);
  return problem;
}

Plan make_plan(const Options& options) {
  Plan plan;
  if (options.shape.empty()) {
    const std::string data = CUFLASH_SOURCE_DIR "/bench/data";
    plan.source.kind = harness::InputKind::kReal;
    plan.source.directory = options.input.empty() ? data : options.input;
    DType dtype = DType::kF16;
    parse_dtype(options.dtype, dtype);
    plan.verified = harness::real_problem(plan.source.directory, dtype, options.causal);
  } else {
    plan.verified = shape_problem(options.shape, options);
  }
  if (!kSimt) {
    plan.timed = options.shape.empty() ? shape_problem(kTimedShape, options) : plan.verified;
  }
  return plan;
}

std::vector<const Stage*> chosen_stages(const std::string& name) {
  if (name.empty()) return stages();
  if (const Stage* stage = find_stage(name)) return {stage};
  std::string names;
  for (const Stage* stage : stages()) names += std::string(" ") + stage->name;
  throw std::runtime_error("there is no stage '" + name + "'; there are:" + names);
}

void set_schedule(const std::string& text) {
  if (text.empty()) return;
#ifdef CUFLASH_SIMT
  simt::Schedule schedule;
  if (!simt::parse_schedule(text, schedule)) {
    throw std::runtime_error("'" + text + "' is not a schedule: inorder, reversed or random:SEED");
  }
  simt::set_schedule(schedule);
#else
  throw std::runtime_error("--schedule is for the CPU machine; a GPU orders its threads itself");
#endif
}

bool machine_counts() {
#ifdef CUFLASH_SIMT
  return simt::counts_accesses();
#else
  return false;
#endif
}

void print_head(Pass pass, const Plan& plan) {
  const bool real = plan.source.kind == harness::InputKind::kReal;
  fmt::print(
      "\n{} · {} · {}{}\n", pass == Pass::kForward ? "Forward" : "Backward",
      problem_name(plan.verified), real ? "real activations" : "random inputs",
      plan.timed && real ? " · timed on " + problem_name(*plan.timed) + ", random inputs" : "");
  if (kSimt && !machine_counts()) {
    fmt::print(
        "This build checks results but counts no accesses: that takes g++ 12 or newer and "
        "no AddressSanitizer.\n");
  }
  fmt::print("\n");
}

void print_foot(const std::vector<Row>& rows, const std::string& stage) {
  const std::string what =
      kSimt
          ? "Read and written: bytes that the threads asked for, before any cache, counted on the "
            "CPU machine. It times nothing."
          : "Time: " + std::string(kTimingMethod) + ".";
  fmt::print("\n{}\n", what);

  const auto failed =
      std::find_if(rows.begin(), rows.end(), [](const Row& row) { return !row.failure.empty(); });
  if (failed != rows.end()) {
    fmt::print("Next: scripts/test.sh {} shows which problems fail.\n", failed->stage->name);
  } else if (stage.empty()) {
    fmt::print(
        "Next: read stages/{0}/README.md, change its kernel, run scripts/run.sh --stage {0}.\n",
        stages().front()->name);
  } else {
    fmt::print(
        "Next: change stages/{0}/kernel.cuh and run this again; scripts/test.sh {0} tests "
        "every corner.\n",
        rows.front().stage->name);
  }
}

int run(const Options& options, const Provenance& provenance) {
  if (options.list) {
    list_stages();
    return 0;
  }
  const auto chosen = chosen_stages(options.stage);
  set_schedule(options.schedule);
  if (current_device().compute_capability == 0) {
    throw std::runtime_error(
        "there is no CUDA device here. The CPU machine needs none: cmake --preset simt && "
        "cmake --build --preset simt --target ladder && build/simt/bin/ladder");
  }
  const Plan plan = make_plan(options);

  fmt::print("CuFlash Ladder on {}\n", kSimt ? "the CPU machine" : provenance.device);
  std::vector<Row> all;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    if (options.pass != "both" && options.pass != pass_name(pass)) continue;
    std::vector<Row> rows;
    for (const Stage* stage : chosen) rows.push_back(measure(*stage, pass, plan));
    print_head(pass, plan);
    fmt::print("{}{}", table_text(rows, plan), failures_text(rows));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  print_foot(all, options.stage);
  if (!options.json.empty()) write_json(options.json, provenance, all, plan);
  return std::all_of(all.begin(), all.end(), [](const Row& row) { return row.failure.empty(); })
             ? 0
             : 1;
}

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  CLI::App app(
      "Runs every stage on a problem, checks each against the reference, prints one table.");
  cuflash::bench::Options options;
  cuflash::bench::declare(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return cuflash::bench::run(options, cuflash::bench::provenance(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "ladder: {}\n", error.what());
    return 1;
  }
}
