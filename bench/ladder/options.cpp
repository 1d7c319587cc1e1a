#include "ladder/options.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <filesystem>

#include "cuflash/workload.h"
#include "simt/simulator.h"

namespace cuflash::bench {
namespace {

// The real input is too small to time.
constexpr const char* kTimedShape = "b4_h32_q4096k4096_d64";

// The folder of real inputs must exist and hold three arrays.
void check_input(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw UsageError("There is no folder \"" + folder + "\" (--input).");
  }
  for (const char* name : {"q.npy", "k.npy", "v.npy"}) {
    if (std::filesystem::exists(folder + '/' + name)) continue;
    throw UsageError("The folder \"" + folder + "\" has no " + name + " (--input).");
  }
}

// An error if the folder of a file does not exist; otherwise empty.
std::string has_folder(const std::string& file) {
  const auto folder = std::filesystem::absolute(file).parent_path();
  return std::filesystem::is_directory(folder) ? ""
                                               : "There is no folder \"" + folder.string() + '"';
}

harness::TestCase empty_case(const Options& options, DType dtype) {
  harness::TestCase c;
  c.problem.dtype = dtype;
  c.problem.causal = options.causal;
  if (!options.input.empty()) {
    check_input(options.input);
    c.source.directory = options.input;
  }
  return c;
}

harness::TestCase shape_case(const std::string& shape, const Options& options, DType dtype) {
  harness::TestCase c = empty_case(options, dtype);
  const auto prefix = shape.rfind("ward_");  // in a test's full name
  if (!parse_test_case(shape.substr(prefix == shape.npos ? 0 : prefix + 5), c)) {
    throw UsageError(
        '"' + shape +
        "\" is not a shape. An example is b2_h4x1_q77k131_d64: batch, query heads x KV heads, "
        "lengths of "
        "Q and K, head_dim. It may be followed, in this order, by dtype, causal, a window (left16, "
        "right3), scale0.1, inputs, layout, omitted outputs, any_order; e.g. "
        "_f16_causal_left16_peaky_padded_no_lse.");
  }
  const Support valid = validate(c.problem);
  if (!valid) throw UsageError(valid.reason + ".");
  if (!options.input.empty() && c.source.kind != harness::InputKind::kReal) {
    throw UsageError("--input is for real inputs: omit --shape, or use one that ends in _real.");
  }
  return c;
}

harness::TestCase real_case(const Options& options, DType dtype) {
  harness::TestCase c = empty_case(options, dtype);
  c.source.kind = harness::InputKind::kReal;
  try {
    c.problem = harness::real_problem(c.source.directory, dtype, options.causal);
  } catch (const std::exception& error) {
    throw UsageError(error.what());
  }
  return c;
}

simt::BlockIndex block_of(const std::string& text) {
  simt::BlockIndex block{};
  char rest = 0;
  if (std::sscanf(text.c_str(), "%u,%u,%u%c", &block.x, &block.y, &block.z, &rest) != 3) {
    throw UsageError("--block takes an index X,Y,Z, e.g. 3,0,0, not \"" + text + "\".");
  }
  return block;
}

void set_schedule(const std::string& text) {
  simt::Schedule schedule;
  if (!simt::parse_schedule(text, schedule)) {
    throw UsageError("--schedule takes inorder, reversed, random:SEED or lagging:SEED, not \"" +
                     text + "\".");
  }
  simt::set_schedule(schedule);
}

}  // namespace

void declare(CLI::App& app, Options& options) {
  std::vector<std::string> dtypes;
  for (const DType dtype : kDTypes) dtypes.push_back(dtype_name(dtype));
  app.get_formatter()->column_width(36);
  app.add_option("--stage", options.stage, "One stage: 05_wmma, or 05, 5, wmma; default all")
      ->option_text("STAGE");
  app.add_option("--shape", options.shape,
                 "A problem with random inputs, e.g. b2_h4x1_q77k131_d64 or, with a window, "
                 "b1_h2_q77k131_d64_left16_right3, or a test's name")
      ->option_text("SHAPE");
  app.add_option("--timed", options.timed,
                 "On a GPU: time a problem of this shape, whichever is verified")
      ->option_text("SHAPE");
  app.add_option("--input", options.input, "Folder of q.npy, k.npy and v.npy; default bench/data")
      ->option_text("DIR");
  app.add_option("--dtype", options.dtype, "Type of the tensors; default f16")
      ->option_text(fmt::format("{}", fmt::join(dtypes, "|")))
      ->check(CLI::IsMember(dtypes));
  app.add_flag("--causal", options.causal, "Causal mask: a query attends to no later key")
      ->disable_flag_override();
  app.add_option("--pass", options.pass, "Passes to run; default both")
      ->option_text("forward|backward|both")
      ->check(CLI::IsMember({"forward", "backward", "both"}));
  app.add_option("--schedule", options.schedule, "Order of threads on the CPU simulator")
      ->option_text("inorder|reversed|random:SEED|lagging:SEED");
  app.add_option("--block", options.block, "Show only this block's findings (CPU simulator)")
      ->option_text("X,Y,Z");
  auto* json = app.add_option("--json", options.json, "Also write the results to this file")
                   ->option_text("FILE")
                   ->check(has_folder);

  auto* list = app.add_flag("--list", options.list, "List the stages and exit")->option_text(" ");
  auto* compare = app.add_option("--compare", options.compare,
                                 "The counts and times of two stages, and their ratios; of one "
                                 "stage, named twice, beside the committed ones")
                      ->option_text("A B")
                      ->expected(2);
  auto* annotate =
      app.add_option("--annotate", options.annotate,
                     "The stage's source, each line with its memory traffic (CPU simulator)")
          ->option_text("STAGE");
  auto* map = app.add_option("--map", options.map,
                             "The layout of the stage's shared memory (CPU simulator)")
                  ->option_text("STAGE");
  auto* play =
      app.add_option("--play", options.play,
                     "A page with one block's run, step by step, of a stage, of two stages side by "
                     "side, or of a file that --json wrote; --text prints it (CPU simulator)")
          ->option_text("STAGE [STAGE]")
          ->expected(1, 2);
  app.add_flag("--text", options.text, "With --play: print the steps")
      ->option_text(" ")
      ->needs(play)
      ->disable_flag_override();
  const std::vector<CLI::Option*> views = {list, compare, annotate,
                                           map,  play,    app.get_option("--stage")};
  for (auto* view : views) {
    for (auto* other : views) {
      if (view != other) view->excludes(other);
    }
  }
  for (auto* view : {annotate, map}) view->excludes(json);
}

Plan make_plan(const Options& options, DType dtype) {
  if (!options.dtype.empty()) parse_dtype(options.dtype, dtype);
  Plan plan;
  const bool shaped = !options.shape.empty();
  plan.verified = shaped ? shape_case(options.shape, options, dtype) : real_case(options, dtype);
  if (simt::kSimulated) {
    if (options.timed.empty()) return plan;
    throw UsageError("--timed needs a GPU: the CPU simulator measures no time.");
  }
  const std::string& timed = options.timed.empty() ? kTimedShape : options.timed;
  plan.timed = shaped && options.timed.empty() ? plan.verified.problem
                                               : shape_case(timed, {}, dtype).problem;
  plan.timed->causal |= plan.verified.problem.causal;
  return plan;
}

bool plays_file(const Options& options) {
  const std::string& name = options.play.empty() ? "" : options.play.front();
  return std::filesystem::path(name).extension() == ".json";
}

const Stage& stage_of(const std::string& name) {
  const bool one_digit = std::isdigit(static_cast<unsigned char>(name[0])) != 0 &&
                         (name.size() == 1 || name[1] == '_');
  if (const Stage* stage = find_stage(one_digit ? '0' + name : name)) return *stage;
  std::string names;
  for (const Stage* stage : stages()) names += std::string(" ") + stage->name;
  throw UsageError("There is no stage \"" + name + "\". There are:" + names + ".");
}

std::vector<Pass> passes_of(const Options& options) {
  std::vector<Pass> passes;
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    if (options.pass == "both" || options.pass == pass_name(pass)) passes.push_back(pass);
  }
  return passes;
}

void set_up_simulator(const Options& options) {
  if (simt::kSimulated) {
    if (!options.schedule.empty()) set_schedule(options.schedule);
    if (!options.block.empty()) simt::report_only_block(block_of(options.block));
    return;
  }
  for (const auto& [name, absent] :
       {std::pair{"--schedule", options.schedule.empty()},
        std::pair{"--block", options.block.empty()},
        std::pair{"--annotate", options.annotate.empty()}, std::pair{"--map", options.map.empty()},
        std::pair{"--play", options.play.empty()}}) {
    if (absent) continue;
    throw UsageError(std::string(name) +
                     " needs the CPU simulator. Run scripts/run.sh with this option, or build "
                     "the preset simt.");
  }
}

}  // namespace cuflash::bench
