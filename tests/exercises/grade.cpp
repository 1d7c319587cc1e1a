#include "grade.h"

#include <algorithm>
#include <stdexcept>

#include "costs.h"
#include "faults.h"
#include "values.h"

namespace cuflash::exercises {
namespace {

using harness::InputKind;

struct Row {
  const char* problem;
  InputKind input = InputKind::kGaussian;
};

// From the simple to the peculiar, so that each mistake shows in some and not in others.
constexpr Row kRows[] = {
    {"b1_h1_q32k32_d32_f32"},
    {"b1_h2_q64k96_d32_f32"},
    {"b1_h1_q17k13_d64_f32"},
    {"b2_h1_q40k77_d32_f16"},
    {"b1_h2_q64k64_d32_f32_causal"},
    {"b1_h1_q33k97_d64_f16_causal"},
    {"b1_h1_q70k20_d32_f32_causal"},
    {"b1_h6x2_q40k37_d64_f16"},
    {"b2_h4x2_q37k71_d32_f32_causal"},
    {"b1_h1_q50k70_d32_f32", InputKind::kPeaky},
    {"b1_h1_q50k70_d32_f32", InputKind::kLargeQ},
    {"b1_h8_q20k20_d32_f32_causal", InputKind::kLargeQ},
};

const char* const kSchedules[] = {"inorder", "reversed", "random:7"};

Sample sample_of(const Row& row, const Stage& own, Pass pass) {
  Sample s;
  s.pass = pass;
  s.input = row.input;
  if (!parse_problem(row.problem, s.problem)) throw std::logic_error(row.problem);
  s.name = row.problem;
  if (row.input != InputKind::kGaussian) s.name += std::string("_") + input_name(row.input);
  const Tile tile = own.tile(pass, s.problem);
  s.walk = {tile.owned, tile.streamed, tile.owned == 0};
  s.want = harness::expected(pass, s.problem, {row.input, 1, ""});
  return s;
}

void run_under(const char* name, const Stage& stage, Sample& s) {
  simt::Schedule schedule;
  simt::parse_schedule(name, schedule);
  simt::set_schedule(schedule);
  simt::reset_counts();
  harness::Outputs got;
  try {
    got = harness::run(stage, s.pass, s.problem, s.want->inputs);
  } catch (const std::exception& error) {
    s.error = error.what();
  }
  for (simt::Finding& finding : simt::take_findings()) s.findings.push_back(std::move(finding));
  s.counts = simt::counts();
  if (!s.error.empty() || (!s.got.tensors.empty() && !s.right())) return;
  s.got = std::move(got);
  s.verdict = verify(s.got, *s.want);
}

Sample run_row(const Row& row, const Stage& exercise, const Stage& own, Pass pass) {
  Sample s = sample_of(row, own, pass);
  for (const char* schedule : kSchedules) {
    run_under(schedule, exercise, s);
    if (!s.error.empty() || !s.findings.empty()) break;
  }
  simt::reset_counts();
  harness::run(own, pass, s.problem, s.want->inputs);
  s.own_counts = simt::counts();
  return s;
}

Grade failed(Check check, std::vector<Diagnosis> diagnoses) {
  return {check, std::move(diagnoses)};
}

std::vector<Diagnosis> machine_diagnoses(const std::vector<Sample>& samples) {
  std::vector<Diagnosis> found = faults(samples);
  const auto error = std::find_if(samples.begin(), samples.end(),
                                  [](const Sample& s) { return !s.error.empty(); });
  if (found.empty() && error != samples.end()) found.push_back({"call-failed", error->error, ""});
  return found;
}

std::vector<Diagnosis> value_diagnoses(const std::vector<Sample>& samples) {
  const auto right = [](const Sample& s) { return s.right(); };
  if (std::all_of(samples.begin(), samples.end(), right)) return {};
  std::vector<Diagnosis> found = named_mistakes(samples);
  if (found.empty()) found.push_back(pattern(samples));
  return found;
}

}  // namespace

const char* check_name(Check check) {
  switch (check) {
    case Check::kCompiles:
      return "compiles";
    case Check::kMachine:
      return "machine";
    case Check::kValues:
      return "values";
    case Check::kBytes:
      return "bytes";
    case Check::kConflicts:
      return "conflicts";
    case Check::kPassed:
      return "passed";
  }
  return "";
}

Grade grade(const Stage& exercise, const Stage& own, Pass pass) {
  std::vector<Sample> samples;
  for (const Row& row : kRows) samples.push_back(run_row(row, exercise, own, pass));
  using Find = std::vector<Diagnosis> (*)(const std::vector<Sample>&);
  const std::pair<Check, Find> checks[] = {
      {Check::kMachine, machine_diagnoses},
      {Check::kValues, value_diagnoses},
      {Check::kBytes, excess_bytes},
      {Check::kConflicts, excess_conflicts},
  };
  for (const auto& [check, find] : checks) {
    std::vector<Diagnosis> found = find(samples);
    if (!found.empty()) return failed(check, std::move(found));
  }
  return {};
}

}  // namespace cuflash::exercises
