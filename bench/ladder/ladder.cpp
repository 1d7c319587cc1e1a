// The ladder: every stage on one problem, checked against the oracle, in one table.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "ceilings/measured.h"
#include "cuflash/workload.h"
#include "json_file.h"
#include "ladder/annotate.h"
#include "ladder/compare.h"
#include "ladder/memory_map.h"
#include "ladder/observe.h"
#include "ladder/options.h"
#include "ladder/recorded_run.h"
#include "ladder/stage_list.h"
#include "ladder/stage_table.h"
#include "program.h"
#include "progress.h"
#include "table.h"
#include "timing.h"

namespace cuflash::bench {
namespace {

std::string inputs_text(const harness::TestCase& c) {
  std::string text = c.source.kind == harness::InputKind::kReal ? "real activations"
                     : c.source.kind == harness::InputKind::kGaussian
                         ? "random inputs"
                         : std::string(input_name(c.source.kind)) + " inputs";
  if (c.options.layout != harness::Layout::kBHSD) {
    text += std::string(", layout ") + layout_name(c.options.layout);
  }
  return text;
}

void print_head(Pass pass, const Plan& plan) {
  const bool other = plan.timed && plan.verified.source.kind != harness::InputKind::kGaussian;
  fmt::print("\n{}",
             paragraph(fmt::format(
                 "{} · {} · {}{}", pass == CUFLASH_FORWARD ? "Forward" : "Backward",
                 problem_name(plan.verified.problem), inputs_text(plan.verified),
                 other ? " · timed on " + problem_name(*plan.timed) + ", random inputs" : "")));
  if (simt::kSimulated && !simt::counts_accesses()) {
    fmt::print("{}",
               paragraph("This build checks results but counts no accesses: counting needs g++ 12 "
                         "or newer and no AddressSanitizer."));
  }
  fmt::print("\n");
}

// A row without a failure may have been skipped.
bool all_ok(const std::vector<Row>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.failure.empty(); });
}

bool nothing_ran(const std::vector<Row>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return !row.skipped.empty(); });
}

// A sentence that suggests the next command. No line ends within a command.
std::string next_step(const std::vector<Row>& rows, const std::string& stage) {
  const auto failed =
      std::find_if(rows.begin(), rows.end(), [](const Row& row) { return !row.failure.empty(); });
  if (failed != rows.end()) {
    return fmt::format("scripts/test.sh\u00a0{} shows which problems fail.", failed->stage->name);
  }
  if (stage.empty()) {
    return fmt::format(
        "read stages/{0}/README.md, change its kernel, run "
        "scripts/run.sh\u00a0--stage\u00a0{0}.",
        stages().front()->name);
  }
  return fmt::format(
      "change stages/{0}/{1} and run this again; scripts/test.sh\u00a0{0} tests every corner case.",
      rows.front().stage->name,
      rows.front().stage->has(CUFLASH_FORWARD) ? "kernel.cuh" : "kernel_bwd.cuh");
}

void print_foot(const std::vector<Row>& rows, const std::string& stage) {
  const std::string what = simt::kSimulated ? "Read and written: bytes requested by the threads, "
                                              "before any cache, counted on the CPU "
                                              "simulator. It measures no time."
                                            : "Time: " + std::string(kTimingMethod) + ".";
  fmt::print("\n{}{}", paragraph(what), paragraph("Next: " + next_step(rows, stage)));
}

// Prints the text after the tables of a view, and writes the file. True if all is well.
bool finish(const Options& options, const Provenance& provenance, const std::vector<Row>& rows,
            const Plan& plan) {
  const std::string limits = limits_text(rows);
  if (!limits.empty()) fmt::print("\n{}", limits);
  if (nothing_ran(rows)) {
    fmt::print("\n{}", paragraph("Nothing ran: every row was skipped."));
  } else if (options.compare.empty()) {
    print_foot(rows, options.stage);
  }
  if (!options.json.empty()) write_json(options.json, provenance, rows, plan);
  return all_ok(rows) && !nothing_ran(rows);
}

// The requested passes that the stage has.
std::vector<Pass> passes_of(const Options& options, const Stage& stage) {
  auto passes = passes_of(options);
  const Pass first = passes.front();
  const auto lacks = [&](Pass pass) { return !stage.has(pass); };
  passes.erase(std::remove_if(passes.begin(), passes.end(), lacks), passes.end());
  if (passes.empty()) {
    throw UsageError(std::string(stage.name) + " has no " + pass_name(first) + " pass.");
  }
  return passes;
}

// Adds the share of the stage's ceiling that a timed row reaches, if there is a loop that measures
// it and this GPU can run it.
void add_share(Row& row, const Problem& timed) {
  if constexpr (!simt::kSimulated) {
    const PassFacts& facts = row.stage->facts(row.pass);
    if (!row.ms || facts.products == nullptr) return;
    const Figure ceiling = measured_once(ceiling_of(facts, timed.dtype));
    if (!ceiling.skipped.empty()) return;
    row.of_ceiling = {ceiling.name, ceiling.tera,
                      products_tflops(facts, timed, *row.ms) / ceiling.tera};
  }
}

// ---- The views: each prints itself and returns true if all is well -----------------------------

// Prints the table of the stages. `after` prints the text after the rows of a pass.
template <class After>
std::vector<Row> print_tables(const Options& options, const std::vector<const Stage*>& chosen,
                              const Plan& plan, After after) {
  std::vector<Row> all;
  for (const Pass pass : passes_of(options)) {
    std::vector<Row> rows;
    for (const Stage* stage : chosen) {
      rows.push_back(measure(*stage, pass, plan));
      if (plan.timed) add_share(rows.back(), *plan.timed);
    }
    print_head(pass, plan);
    fmt::print("{}{}", table_text(rows, plan), failures_text(rows));
    after(rows);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

bool table_view(const Options& options, const Provenance& provenance) {
  const Plan plan = make_plan(options);
  const auto chosen =
      options.stage.empty() ? stages() : std::vector<const Stage*>{&stage_of(options.stage)};
  const auto rows = print_tables(options, chosen, plan, [](const std::vector<Row>&) {});
  return finish(options, provenance, rows, plan);
}

bool compare_view(const Options& options, const Provenance& provenance) {
  const Plan plan = make_plan(options);
  std::vector<const Stage*> chosen = {&stage_of(options.compare[0])};
  const Stage* second = &stage_of(options.compare[1]);
  if (second != chosen.front()) chosen.push_back(second);
  const auto rows = print_tables(options, chosen, plan, [&](const std::vector<Row>& pair) {
    if (!pair.front().skipped.empty() || !pair.back().skipped.empty()) return;
    fmt::print("\n{}", comparison_text(pair.front(), pair.back(), plan));
  });
  return finish(options, provenance, rows, plan);
}

bool annotate_view(const Options& options) {
  const Stage& stage = stage_of(options.annotate);
  const Plan plan = make_plan(options);
  for (const Pass pass : passes_of(options, stage)) {
    const Observed observed = observe(stage, pass, plan.verified);
    print_head(pass, plan);
    fmt::print("{}{}", memory_map_text(observed.maps), annotated_sources(observed.lines));
  }
  fmt::print("\n{}", annotation_legend());
  return true;
}

bool map_view(const Options& options) {
  const Stage& stage = stage_of(options.map);
  for (const Pass pass : passes_of(options, stage)) {
    std::string last;
    for (const DType dtype : {CUFLASH_F32, CUFLASH_F16}) {
      if (!stage.facts(pass).dtypes.has(dtype)) continue;
      const Plan plan = make_plan(options, dtype);
      if (test_case_name(plan.verified) == last) continue;  // The options contain a dtype.
      last = test_case_name(plan.verified);
      const auto maps = observe(stage, pass, plan.verified).maps;
      print_head(pass, plan);
      fmt::print("{}", memory_map_text(maps));
    }
  }
  return true;
}

std::vector<const Stage*> played_stages(const Options& options) {
  std::vector<const Stage*> played;
  for (const std::string& name : options.play) played.push_back(&stage_of(name));
  return played;
}

// The requested passes that all played stages have.
std::vector<Pass> played_passes(const Options& options) {
  const auto played = played_stages(options);
  std::vector<Pass> passes = passes_of(options, *played.front());
  const auto one_lacks = [&](Pass pass) {
    return std::any_of(played.begin(), played.end(),
                       [&](auto* stage) { return !stage->has(pass); });
  };
  passes.erase(std::remove_if(passes.begin(), passes.end(), one_lacks), passes.end());
  if (passes.empty()) {
    throw UsageError(fmt::format("{} and {} have no such pass in common.", played.front()->name,
                                 played.back()->name));
  }
  return passes;
}

// The problem of the options, or by default a small one with all kinds of tiles.
harness::TestCase played_case(const Options& options, const std::vector<const Stage*>& played,
                              Pass pass) {
  if (!options.shape.empty() || !options.input.empty()) return make_plan(options).verified;
  const bool f16 = std::all_of(played.begin(), played.end(), [&](auto* stage) {
    return stage->facts(pass).dtypes.has(CUFLASH_F16);
  });
  DType dtype = f16 ? CUFLASH_F16 : CUFLASH_F32;
  if (!options.dtype.empty()) parse_dtype(options.dtype, dtype);
  return small_case(played, pass, dtype, options.causal);
}

void write_page(const std::string& page, const std::string& json) {
  if constexpr (simt::kSimulated) {
    write_text(page, runs_page(json));
    const std::string path =
        std::filesystem::absolute(page);  // The browser may run in another folder.
    fmt::print("Wrote {}. Open it in a browser.\n", path);
  }
}

// The page lies beside the file.
bool play_file(std::filesystem::path path) {
  const std::string json = text_of_file(path);
  if (!is_runs_json(json)) {
    throw std::runtime_error(path.string() + ": not a file that --play --json wrote");
  }
  write_page(path.replace_extension(".html"), json);
  return true;
}

bool play_view(const Options& options) {
  const auto played = played_stages(options);
  std::vector<RecordedRun> runs;
  for (const Pass pass : played_passes(options)) {
    const harness::TestCase problem = played_case(options, played, pass);
    for (const Stage* stage : played) {
      runs.push_back(record(*stage, pass, problem));
      if (!options.text) continue;
      print_head(pass, {problem, std::nullopt});
      fmt::print("{}", run_text(runs.back()));
    }
  }
  if (options.text) fmt::print("\n{}", run_legend());
  const std::string json = runs_json(runs);
  if (!options.json.empty()) write_text(options.json, json);
  if (!options.text && options.json.empty()) {
    std::string name = played.front()->name;
    if (played.size() > 1) name += std::string("-") + played.back()->name;
    const std::filesystem::path folder = CUFLASH_SOURCE_DIR "/build/play";
    std::filesystem::create_directories(folder);
    write_page(folder / (name + ".html"), json);
  }
  return true;
}

// Throws a UsageError if the options make no sense, before anything is printed.
void check(const Options& options) {
  std::vector<std::string> names = options.compare;
  names.insert(names.end(), {options.stage, options.annotate, options.map});
  for (const std::string& name : names) {
    if (!name.empty()) stage_of(name);
  }
  for (const std::string& name : {options.annotate, options.map}) {
    if (!name.empty()) passes_of(options, stage_of(name));
  }
  if (!options.play.empty() && !plays_file(options)) {
    const auto played = played_stages(options);
    if (played.size() > 1 && played[0] == played[1]) {
      throw UsageError("--play needs two different stages.");
    }
    played_passes(options);
  }
  if (plays_file(options) && (options.play.size() > 1 || options.text || !options.json.empty())) {
    throw UsageError("--play makes a page of one file; --text and --json need stages.");
  }
  make_plan(options);
  set_up_simulator(options);
}

bool run(const Options& options, const Provenance& provenance) {
  if (options.list) {
    list_stages(options.json);
    return true;
  }
  check(options);
  if (current_device().compute_capability == 0) {
    throw std::runtime_error(
        "There is no CUDA device here. The CPU simulator needs none: cmake --preset simt && "
        "cmake --build --preset simt --target ladder && build/simt/bin/ladder.");
  }
  fmt::print("CuFlash Ladder on {}\n", simt::kSimulated ? "the CPU simulator" : provenance.device);
  if (!options.annotate.empty()) return annotate_view(options);
  if (plays_file(options)) return play_file(options.play.front());
  if (!options.play.empty()) return play_view(options);
  if (!options.map.empty()) return map_view(options);
  if (!options.compare.empty()) return compare_view(options, provenance);
  return table_view(options, provenance);
}

}  // namespace
}  // namespace cuflash::bench

int main(int argc, char** argv) {
  CLI::App app(
      "Runs every stage on a problem, checks each against the reference, and prints one table.");
  cuflash::bench::Options options;
  cuflash::bench::declare(app, options);
  cuflash::bench::end_cleanly_on_interrupt();
  return cuflash::bench::run_program(app, argc, argv, [&](const auto& provenance) {
    return cuflash::bench::run(options, provenance) ? 0 : 1;
  });
}
