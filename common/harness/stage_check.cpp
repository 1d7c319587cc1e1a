#include "harness/stage_check.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "cuflash/workload.h"
#include "harness/owners.h"
#include "harness/reference_outputs.h"
#include "harness/stage_score.h"

namespace cuflash::harness {
namespace {

struct Subject {
  const Stage& stage;
  Pass pass;
  const TestCase& c;
  const ReferenceOutputs& want;
};

// ---- Runs ---------------------------------------------------------------------------------------

// The runs of a check. On the simulator they differ in the order of threads and blocks; the current
// schedule comes first.
std::vector<std::string> schedules() {
  if (!simt::kSimulated) return {"run 1", "run 2"};
  std::vector<std::string> all = {simt::schedule_name(simt::schedule())};
  for (const char* name : {"inorder", "reversed", "random:7"}) {
    if (all.size() < 3 && name != all.front()) all.push_back(name);
  }
  return all;
}

// Sets a schedule of the simulator during its lifetime.
class Scheduled {
 public:
  explicit Scheduled(const std::string& name) : before_(simt::schedule()) {
    simt::Schedule schedule;
    simt::parse_schedule(name, schedule);
    simt::set_schedule(schedule);
  }
  Scheduled(const Scheduled&) = delete;
  Scheduled& operator=(const Scheduled&) = delete;
  ~Scheduled() { simt::set_schedule(before_); }

 private:
  simt::Schedule before_;
};

Run run_once(const Subject& s, const std::string& schedule) {
  const Scheduled scheduled(schedule);
  Run run;
  run.schedule = schedule;
  simt::reset_counts();
  try {
    run.outputs = harness::run(s.stage, s.pass, s.c.problem, s.want.inputs, s.c.options);
    run.accuracy = check_accuracy(run.outputs, s.want);
  } catch (const CudaError& error) {
    if (error.code() == cudaErrorMemoryAllocation) throw;
    run.error = error.what();
  } catch (const std::runtime_error& error) {
    run.error = error.what();
  }
  if (simt::counts_accesses()) run.counts = simt::counts();
  for (const simt::SharedMap& map : simt::shared_maps()) {
    run.shared_bytes = std::max(run.shared_bytes, map.bytes);
  }
  return run;
}

// ---- Findings -----------------------------------------------------------------------------------

// The identity of a fault: all of a finding except its threads and elements, which differ from
// schedule to schedule.
auto identity(const simt::Finding& finding) {
  std::set<std::string> lines = {finding.location};
  for (const simt::FindingAccess& access : finding.accesses) lines.insert(access.location);
  return std::tuple(finding.report, finding.kernel, finding.array, lines);
}

void merge(std::vector<Fault>& faults, const std::string& schedule,
           std::vector<simt::Finding> findings) {
  for (simt::Finding& finding : findings) {
    const auto known = std::find_if(faults.begin(), faults.end(), [&](const Fault& fault) {
      return identity(fault.finding) == identity(finding);
    });
    if (known == faults.end()) {
      faults.push_back({std::move(finding), {schedule}, ""});
    } else if (known->schedules.back() != schedule) {
      known->schedules.push_back(schedule);
    }
  }
}

// The schedule to replay: one that found the fault and gave a wrong result, if there is one.
std::string telling_schedule(const Fault& fault, const std::vector<Run>& runs) {
  const auto found = [&](const Run& run) {
    return std::count(fault.schedules.begin(), fault.schedules.end(), run.schedule) > 0;
  };
  for (const Run& run : runs) {
    if (found(run) && !run.right()) return run.schedule;
  }
  return fault.schedules.front();
}

// The command that runs this case alone, under a schedule of the CPU simulator.
std::string command_of(const Subject& s, const std::string& schedule) {
  std::string command = std::string("scripts/run.sh --stage ") + s.stage.name + " --pass " +
                        pass_name(s.pass) + " --shape " + test_case_name(s.c);
  if (s.c.source.kind == InputKind::kReal && s.c.source.directory != InputSource().directory) {
    command += " --input '" + s.c.source.directory + "'";
  }
  if (schedule.find(' ') == std::string::npos) command += " --schedule " + schedule;
  return command;
}

std::string replay_command(const Subject& s, const Fault& fault, const std::vector<Run>& runs) {
  const std::string command = command_of(s, telling_schedule(fault, runs));
  const std::optional<simt::BlockIndex>& block = fault.finding.block;
  if (!block) return command;
  return command + " --block " + std::to_string(block->x) + ',' + std::to_string(block->y) + ',' +
         std::to_string(block->z);
}

std::string message(const Subject& s, const Fault& fault, const std::vector<Run>& runs) {
  const simt::Finding& finding = fault.finding;
  const auto right =
      std::count_if(runs.begin(), runs.end(), [](const Run& r) { return r.right(); });
  return finding.message(std::string(s.stage.name) + ' ' + pass_name(s.pass) + ", " +
                         test_case_name(s.c) + ", kernel " + short_kernel_name(finding.kernel)) +
         "  The result was correct under " + std::to_string(right) + " of " +
         std::to_string(runs.size()) + " schedules.\n  Replay: " + replay_command(s, fault, runs) +
         "\n  Step by step: scripts/run.sh --play " + s.stage.name + " --pass " +
         pass_name(s.pass) + '\n';
}

// Describes the first wrong run in full and lists the others.
std::string wrong_results(const std::vector<Run>& runs) {
  std::string text, also;
  for (const Run& run : runs) {
    if (run.right()) continue;
    if (!text.empty()) {
      also += (also.empty() ? "Also wrong under " : ", ") + run.schedule;
      continue;
    }
    if (runs.size() > 1) text = "Under " + run.schedule + ":\n";
    text += run.error.empty() ? run.accuracy.failures() : run.error + '\n';
  }
  return also.empty() ? text : text + also + ".\n";
}

}  // namespace

std::string short_kernel_name(const std::string& kernel) {
  const std::string name = kernel.substr(0, kernel.find('<'));
  const std::size_t colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

bool StageCheck::ok() const {
  return unstable.empty() && faults.empty() &&
         std::all_of(runs.begin(), runs.end(), [](const Run& run) { return run.right(); });
}

std::string StageCheck::failures() const {
  std::string text;
  for (const Fault& fault : faults) text += fault.message + '\n';
  const std::string wrong = wrong_results(runs);
  text += wrong.empty() ? unstable : wrong;
  return faults.empty() && !replay.empty() ? text + "Replay: " + replay + '\n' : text;
}

StageCheck check_stage(const Stage& stage, Pass pass, const TestCase& c, Runs runs) {
  const auto want = reference_outputs(pass, c.problem, c.source, score_of(stage));
  const Subject subject = {stage, pass, c, *want};
  StageCheck check;
  for (const std::string& schedule : schedules()) {
    check.runs.push_back(run_once(subject, schedule));
    merge(check.faults, schedule, simt::take_findings());
    const Run &first = check.runs.front(), &last = check.runs.back();
    const std::string difference = first_difference(first.outputs, last.outputs);
    const PassFacts& facts = stage.facts(pass);
    const bool same_bits = facts.features.has(Feature::kDeterministic) &&
                           (c.options.deterministic || !facts.any_order);
    if (same_bits && check.unstable.empty() && !difference.empty()) {
      check.unstable =
          "Between " + first.schedule + " and " + last.schedule + " " + difference + ".\n";
    }
    if (runs == Runs::kOne || (runs == Runs::kOneUnlessFound && check.faults.empty())) break;
  }
  for (Fault& fault : check.faults) fault.message = message(subject, fault, check.runs);
  const auto wrong = std::find_if(check.runs.begin(), check.runs.end(),
                                  [](const Run& run) { return !run.right(); });
  if (wrong != check.runs.end()) check.replay = command_of(subject, wrong->schedule);
  return check;
}

}  // namespace cuflash::harness
