#include "grade.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "costs.h"
#include "cuflash/workload.h"
#include "difference.h"
#include "divergence.h"
#include "faults.h"
#include "harness/traffic.h"
#include "values.h"

namespace cuflash {
namespace {
int keys_beyond = 0;  // of the tensors in the call that runs
}  // namespace

int added_keys() { return keys_beyond; }

namespace exercises {
namespace {

// From the simple to the peculiar, so that each mistake shows in some and not in others: every head
// dimension, tails of one row, one key, causal masks that begin before, at and after the first key,
// windows, grouped heads, rows with gaps between them, scores that overflow, more tiles than a
// stage has buffers for, a window so wide that a tile beside its edge needs no mask, several tiles
// of queries a head. A stage that does not take f32 takes f16 instead, and does without the head
// dimensions that it does not take.
const char* const kCases[] = {
    "b1_h1_q32k32_d64_f32",
    "b1_h2_q64k96_d32_f32_padded",
    "b1_h1_q17k13_d64_f32",
    "b2_h1_q64k77_d64_f16",
    "b1_h1_q65k33_d128_f16",
    "b1_h1_q33k65_d32_f16",
    "b2_h4_q11k1_d32_f32",
    "b1_h1_q40k1_d64_f32_largeq",
    "b1_h2_q64k64_d64_f32_causal",
    "b1_h1_q64k65_d32_f32_causal",
    "b1_h1_q33k97_d64_f16_causal",
    "b1_h1_q70k20_d64_f32_causal",
    "b1_h4x2_q20k64_d64_f16",
    "b1_h6x2_q37k71_d32_f32_causal",
    "b1_h1_q64k128_d32_f32_causal_left1",
    "b1_h1_q64k120_d32_f32_causal_left0_largeq",
    "b1_h1_q70k100_d64_f32_causal_left20",
    "b1_h1_q64k96_d64_f16_left40_right9",
    "b1_h1_q50k70_d64_f32_peaky",
    "b1_h1_q50k70_d64_f32_largeq",
    "b1_h4_q20k20_d64_f32_causal_largeq",
    "b1_h1_q192k192_d128_f16_causal",
    "b1_h1_q64k192_d96_f16_left100",
    "b1_h1_q40k128_d256_f16_causal",
    "b1_h1_q20k150_d256_f16",
    "b1_h1_q20k290_d32_f16",
    "b1_h2_q260k260_d32_f16_causal",
    "b1_h1_q20k520_d128_f16_largeq",
};

// The same where blocks stay: grouped heads in several batches, keys that no query sees between
// some that are seen, and so many heads and queries that stage 18 zeroes and rounds dQ on the way.
const char* const kResidentCases[] = {
    "b2_h4x2_q20k40_d32_f16",
    "b1_h2_q33k300_d32_f16_left40_right7",
    "b1_h8_q768k20_d32_f16",
};

// Without pages. Where a stage takes pages, K and V of all others are in pages.
const char* const kCaseWithoutPages = "b2_h1_q64k77_d64_f16";

// Of tensors with more keys than the sequence: there is no mask, and the last tile is partial.
const char* const kCaseOfLongerTensors = "b1_h1_q17k13_d64_f32";

// Of a call without an LSE: its pointer is null.
const char* const kCaseWithoutLse = "b1_h2_q37k71_d64_f32_causal_no_lse";

std::string source_line(const simt::LineCounts& of) {
  std::ifstream file(of.file);
  std::string text;
  for (int n = 0; n < of.line && std::getline(file, text); ++n) {
  }
  return text;
}

std::string place(const simt::LineCounts& of) {
  return std::filesystem::path(of.file).filename().string() + ':' + std::to_string(of.line);
}

// Where the exercise has most bank conflicts, and most requests of shared memory.
void note_lines(Sample& s) {
  const auto lines = simt::line_counts();
  const auto most = [&](const auto& count) {
    const auto found =
        std::max_element(lines.begin(), lines.end(),
                         [&](const auto& a, const auto& b) { return count(a) < count(b); });
    return found == lines.end() || count(*found) == 0 ? nullptr : &*found;
  };
  const auto* const loads =
      most([](const simt::LineCounts& line) { return line.shared ? line.requests : 0; });
  if (loads != nullptr) s.loads_line = place(*loads);
  const auto* const conflicts = most([](const simt::LineCounts& line) { return line.conflicts; });
  if (conflicts == nullptr) return;
  s.conflicts_line = place(*conflicts);
  s.conflicts_rows = banks_of_rows(source_line(*conflicts), simt::shared_maps());
  s.conflicts_of_write = conflicts->write;
}

struct Target {
  simt::Counts counts;
  bool conflicts_of_write = false;
};

// What the stage itself asks for. Kept, for the many answers of the check.
Target target_of(const Stage& own, Pass pass, const harness::TestCase& c) {
  static std::map<std::string, Target> known;
  const std::string key = std::string(own.name) + pass_name(pass) + test_case_name(c);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const harness::StageCheck check = check_stage(own, pass, c, harness::Runs::kOneUnlessFound);
  Target target = {check.runs.front().counts.value_or(simt::Counts())};
  for (const simt::LineCounts& line : simt::line_counts()) {
    target.conflicts_of_write |= line.write && line.conflicts > 0;
  }
  return known[key] = target;
}

harness::TestCase case_of(const char* name) {
  harness::TestCase c;
  if (!parse_test_case(name, c)) throw std::logic_error(std::string(name) + " is not a case");
  return c;
}

// The problems that a stage takes.
std::vector<const char*> cases_of(const Stage& own, Pass pass) {
  std::vector<const char*> names;
  for (const char* name : kCases) {
    if (own.facts(pass).head_dims.has(case_of(name).problem.head_dim)) names.push_back(name);
  }
  if (own.facts(pass).resident) {
    names.insert(names.end(), std::begin(kResidentCases), std::end(kResidentCases));
  }
  return names;
}

Sample sample_of(const char* name, const Stage& exercise, const Stage& own, Pass pass,
                 harness::Runs runs) {
  harness::TestCase c = case_of(name);
  Sample s;
  if (!own.facts(pass).dtypes.has(c.problem.dtype)) c.problem.dtype = CUFLASH_F16;
  if (own.facts(pass).features.has(Feature::kPages) && name != std::string(kCaseWithoutPages)) {
    c.problem = in_pages(c.problem, 16);
  }
  c.options.sms = told_sms(own, pass);
  s.name = test_case_name(c);
  s.pass = pass;
  s.problem = c.problem;
  s.input = c.source.kind;
  s.layout = c.options.layout;
  const harness::Tile tile = harness::main_tile(own, pass, s.problem);
  s.walk = {tile.owned, tile.streamed, tile.owned == 0};
  s.walk.fragments =
      !own.facts(pass).dtypes.has(CUFLASH_F32);  // Only tensor cores are that choosy.
  s.want = harness::reference_outputs(pass, s.problem, c.source);
  s.check = check_stage(exercise, pass, c, runs);
  s.counts = s.run().counts.value_or(simt::Counts());
  note_lines(s);
  const Target target = target_of(own, pass, c);
  s.own = target.counts;
  s.own_conflicts_of_write = target.conflicts_of_write;
  s.whole_matrices = own.facts(pass).keeps_scores;
  s.one_ds = s.whole_matrices || own.facts(pass).any_order;
  return s;
}

bool of_order(const std::string& id) {
  return id == "copy-in-flight" || id.rfind("race", 0) == 0 || id.rfind("stage-not", 0) == 0;
}

// What follows where a kernel accesses other elements than it means to.
bool may_be_stray(const std::string& id) {
  return id == "out-of-bounds" || id == "uninitialised" || of_order(id);
}

// The values of the problems in which no fault was found may name the mistake behind it.
std::vector<Diagnosis> cause_of_stray(const std::vector<Sample>& samples, Diagnosis stray,
                                      const Diagnosis& fault) {
  std::vector<Sample> sound;
  for (const Sample& s : samples) {
    if (s.check.faults.empty()) sound.push_back(s);
  }
  const auto wrong = [](const Sample& s) { return !s.right(); };
  std::vector<Diagnosis> found;
  if (std::any_of(sound.begin(), sound.end(), wrong)) found = named_mistakes(sound, false);
  stray.details = fault.details;
  found.push_back(std::move(stray));
  return found;
}

// The first store that differs from the stage's may tell what a fault follows from.
void name_cause(Diagnosis& fault, const Stage& exercise, const Stage& own,
                const std::vector<Sample>& samples) {
  const Diagnosis first = divergence(exercise, own, samples).cause;
  if (first.id == kWrongPitch) fault.id = first.id, fault.message = first.message.substr(1);
  if (fault.id != "uninitialised") return;
  const std::string share = share_left_out(exercise, own, samples);
  if (!share.empty()) {
    fault.id = "share-left-out", fault.causes = share;
  } else if (first.id == kNeverStored) {
    fault.message += first.message;
    fault.more = first.more;
  }
}

// A call at a barrier that differs from the stage's, for the causes that a fault may have. True if
// there is one.
bool name_barrier_call(Diagnosis& fault, const std::vector<Sample>& samples, const Stage& exercise,
                       const Stage& own) {
  const char* const ids[] = {"mbarrier",         "named-barrier", "race-read", "race-overwrite",
                             "race-two-writers", "stage-not",     "copy-"};
  const auto is_of = [&](const char* id) { return fault.id.rfind(id, 0) == 0; };
  if (std::none_of(std::begin(ids), std::end(ids), is_of)) return false;
  const std::string call = differing_barrier_call(exercise, own, samples);
  if (!call.empty()) fault.causes = call;
  return !call.empty();
}

std::vector<Diagnosis> machine_diagnoses(const std::vector<Sample>& samples, const Stage& exercise,
                                         const Stage& own) {
  std::vector<Diagnosis> found = faults(samples);
  if (!found.empty() && name_barrier_call(found.front(), samples, exercise, own)) return found;
  if (!found.empty() &&
      (found.front().id == "race-between-blocks" || found.front().id == "stored-again")) {
    found.front().causes = rows_stored_again(exercise, own, samples);
  }
  // A block that stays may access other elements because it takes other tiles.
  const bool stays = own.facts(samples.front().pass).resident;
  if (!found.empty() && may_be_stray(found.front().id) && !stays) {
    Diagnosis stray = stray_access(exercise, own, samples,
                                   of_order(found.front().id) ? found.front().message : "");
    if (!stray.id.empty()) return cause_of_stray(samples, std::move(stray), found.front());
    name_cause(found.front(), exercise, own, samples);
  }
  for (const Sample& s : samples) {
    if (found.empty() && !s.run().error.empty()) found.push_back({"call-failed", s.run().error});
  }
  return found;
}

Diagnosis too_slow(std::size_t graded, std::size_t all) {
  return {"too-slow",
          "The results are right so far, but the kernel is much too slow: grading stopped after " +
              std::to_string(graded) + " of " + std::to_string(all) +
              " problems. Look for work that is repeated, or done by one thread alone."};
}

std::vector<Diagnosis> value_diagnoses(const std::vector<Sample>& samples, const Stage& exercise,
                                       const Stage& own) {
  const auto right = [](const Sample& s) { return s.right(); };
  if (std::all_of(samples.begin(), samples.end(), right)) return {};
  const Divergence first = divergence(exercise, own, samples);
  const Pattern wrong = pattern(samples, first.cause.id == kNeverStored);
  // Where a product tells what is wrong, what that usually means says less.
  const bool located = first.of_product && !first.cause.message.empty();
  const auto pattern_with = [&](const std::string& id, const std::string& cause) {
    return Diagnosis{id, wrong.headline + cause + (located ? "" : wrong.hint),
                     wrong.places + first.cause.details, first.cause.more};
  };
  if (own.facts(samples.front().pass).resident && !wrong.untouched.empty()) {
    return {{"tile-skipped",
             wrong.headline + " No block stores these rows, the first of them " + wrong.untouched +
                 ": is their tile taken by any? From round to round the blocks together must take "
                 "every tile once.",
             wrong.places}};
  }
  if (wrong.id == kNeverWritten) return {pattern_with(wrong.id, first.cause.message)};
  std::vector<Diagnosis> found = named_mistakes(samples, located);
  if (!found.empty()) return found;
  if (wrong.id == kMaskedIsFinite) return {pattern_with(wrong.id, "")};
  const std::string other_tile = tile_of_other_block(exercise, own, samples);
  if (!other_tile.empty()) return {pattern_with("tile-of-other-block", other_tile)};
  const Diagnosis terms = located ? Diagnosis() : score_terms(samples);
  if (!terms.id.empty()) return {pattern_with(terms.id, terms.message)};
  return {pattern_with(first.cause.id.empty() ? wrong.id : first.cause.id, first.cause.message)};
}

// A call that wants no LSE must leave it alone, and compute the same O.
Grade grade_without_lse(const Stage& exercise, const Stage& own, harness::Runs runs) {
  const Sample s = sample_of(kCaseWithoutLse, exercise, own, CUFLASH_FORWARD, runs);
  for (Diagnosis& diagnosis : faults({s})) {
    if (diagnosis.id != "no-such-memory") return {Check::kMachine, {std::move(diagnosis)}};
    return {Check::kMachine,
            {{"lse-unchecked",
              "The values are right, but a call that wants no LSE ends in a fault: p.lse is then a "
              "null pointer. Write the LSE only where p.lse != nullptr.",
              diagnosis.details}}};
  }
  if (s.right()) return {};
  return {Check::kValues,
          {{"wrong-without-lse",
            "O is right where the LSE is wanted, and wrong where it is not (p.lse is null): "
            "only the write of the LSE may depend on p.lse."}}};
}

// A sequence may have fewer keys than the parameters say. Those beyond are zeros.
Grade grade_longer_tensors(const Stage& exercise) {
  constexpr int kBeyond = 7;
  const harness::TestCase c = case_of(kCaseOfLongerTensors);
  const auto want = harness::reference_outputs(CUFLASH_FORWARD, c.problem, c.source);
  harness::Inputs inputs = want->inputs;
  Problem longer = c.problem;
  longer.seq_kv += kBeyond;
  for (auto* tensor : {&inputs.k, &inputs.v}) tensor->resize(longer.seq_kv * longer.head_dim);
  bool right = false;
  keys_beyond = kBeyond;
  try {
    const auto outputs = harness::run(exercise, CUFLASH_FORWARD, longer, inputs);
    right = harness::check_accuracy(outputs, *want).ok();
  } catch (const std::runtime_error&) {
    // It is wrong.
  }
  keys_beyond = 0;
  if (simt::take_findings().empty() && right) return {};
  return {
      Check::kValues,
      {{"length-of-tensors",
        "The number of keys is taken from p.seq_kv, the length of the tensors. Those that count "
        "are the sequence's, seq.num_keys, and may be fewer."}}};
}

}  // namespace

nlohmann::ordered_json to_json(const Grade& grade) {
  constexpr const char* kNames[] = {"compiles", "machine",   "values",
                                    "bytes",    "conflicts", "barriers"};
  nlohmann::ordered_json json, checks;
  for (int n = 0; n < static_cast<int>(Check::kPassed); ++n) {
    const auto check = static_cast<Check>(n);
    checks[kNames[n]] = check < grade.failed    ? "passed"
                        : check == grade.failed ? "failed"
                                                : "not reached";
  }
  json["passed"] = grade.passed();
  json["checks"] = checks;
  json["diagnoses"] = nlohmann::ordered_json::array();
  for (const Diagnosis& diagnosis : grade.diagnoses) {
    nlohmann::ordered_json entry = {{"id", diagnosis.id},
                                    {"message", diagnosis.message + diagnosis.causes}};
    if (!diagnosis.details.empty()) entry["details"] = diagnosis.details;
    if (!diagnosis.more.empty()) entry["more"] = diagnosis.more;
    json["diagnoses"].push_back(entry);
  }
  return json;
}

Grade grade(const Stage& exercise, const Stage& own, Pass pass, harness::Runs runs,
            const std::function<bool(int, int, const char*)>& begins) {
  std::vector<Sample> samples;
  bool faulty = false;  // The first fault is looked at under all schedules.
  const std::vector<const char*> cases = cases_of(own, pass);
  for (const char* name : cases) {
    const int number = static_cast<int>(samples.size()) + 1;
    if (begins && !begins(number, static_cast<int>(cases.size()), name)) break;
    samples.push_back(sample_of(name, exercise, own, pass, faulty ? harness::Runs::kOne : runs));
    faulty |= !samples.back().check.faults.empty();
  }
  const std::pair<Check, std::function<std::vector<Diagnosis>()>> checks[] = {
      {Check::kMachine, [&] { return machine_diagnoses(samples, exercise, own); }},
      {Check::kValues, [&] { return value_diagnoses(samples, exercise, own); }},
      {Check::kBytes, [&] { return excess_bytes(samples, exercise, own); }},
      {Check::kConflicts, [&] { return excess_conflicts(samples, exercise); }},
      {Check::kConflicts, [&] { return excess_shared_loads(samples); }},
      {Check::kBarriers, [&] { return excess_barriers(samples, exercise); }},
      {Check::kBarriers, [&] { return lost_overlap(samples); }},
      {Check::kBarriers,
       [&] {
         return own.facts(pass).resident ? missing_waits(samples) : std::vector<Diagnosis>();
       }},
  };
  for (const auto& [check, find] : checks) {
    if (check == Check::kBytes && pass == CUFLASH_FORWARD) {
      Grade without_lse = grade_without_lse(exercise, own, runs);
      if (!without_lse.passed()) return without_lse;
      const PassFacts& facts = own.facts(pass);
      if (facts.dtypes.has(CUFLASH_F32) && !facts.keeps_scores) {
        Grade longer = grade_longer_tensors(exercise);
        if (!longer.passed()) return longer;
      }
    }
    std::vector<Diagnosis> found = find();
    if (!found.empty()) return {check, std::move(found)};
  }
  if (samples.size() < cases.size()) {
    return {Check::kMachine, {too_slow(samples.size(), cases.size())}};
  }
  return {};
}

}  // namespace exercises
}  // namespace cuflash
