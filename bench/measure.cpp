#include "measure.h"

#include <fmt/core.h>

#include <cmath>
#include <memory>

#include "harness/verify.h"
#include "progress.h"
#include "timing.h"

namespace cuflash::bench {
namespace {

std::string busy(const char* verb, const Stage& stage, Pass pass, const Problem& problem) {
  return fmt::format("{} {}, {} of {}", verb, stage.name, pass_name(pass), problem_name(problem));
}

// What the CPU machine found wrong since the last call.
std::string take_findings() {
  std::string text;
#ifdef CUFLASH_SIMT
  for (const simt::Finding& finding : simt::take_findings()) text += finding.message() + "\n";
#endif
  return text;
}

void verify_row(Row& row, const Plan& plan) {
  const Progress progress(busy("verifying", *row.stage, row.pass, plan.verified));
  const auto want = harness::expected(row.pass, plan.verified, plan.source);
#ifdef CUFLASH_SIMT
  simt::reset_counts();
#endif
  const auto got = harness::run(*row.stage, row.pass, plan.verified, want->inputs);
  const auto verdict = verify(got, *want);
  row.failure = verdict.failures();
  row.error = verdict.worst().error;
  row.limit = verdict.worst().limit;
#ifdef CUFLASH_SIMT
  row.predicted = harness::predicted_traffic(*row.stage, row.pass, plan.verified);
  if (!simt::counts_accesses()) return;
  const simt::Counts counts = simt::counts();
  row.counted = {counts.global_read_bytes, counts.global_write_bytes, counts.bank_conflicts};
#endif
}

// Inputs for timing: any will do that are finite and not zero. Kept for the next stage.
const harness::Inputs& timing_inputs(Pass pass, const Problem& problem) {
  static std::string last;
  static harness::Inputs inputs;
  const std::string name = pass_name(pass) + problem_name(problem);
  if (name == last) return inputs;
  inputs = harness::make_inputs(problem, {});
  if (pass == Pass::kBackward) {
    inputs.o = inputs.q;  // Any O will do, and an LSE that makes P about 1 / seq_kv.
    inputs.lse.assign(inputs.q.size() / problem.head_dim, std::log(float(problem.seq_kv)) + 0.5f);
  }
  last = name;
  return inputs;
}

void time_row(Row& row, const Problem& problem) {
  const Progress progress(busy("timing", *row.stage, row.pass, problem));
  const Support support = supports(*row.stage, row.pass, problem, current_device());
  if (!support) {
    row.not_timed = support.reason;
    return;
  }
  try {
    harness::CallOptions options;
    options.guards = false;
    harness::Call call(*row.stage, row.pass, problem, timing_inputs(row.pass, problem), options);
    row.ms = median_ms(call);
  } catch (const harness::CudaError& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
    row.not_timed = error.what();
  }
}

}  // namespace

Row measure(const Stage& stage, Pass pass, const Plan& plan) {
  Row row;
  row.stage = &stage;
  row.pass = pass;
  const Support support = supports(stage, pass, plan.verified, current_device());
  if (!support) {
    row.skipped = support.reason;
    return row;
  }
  try {
    verify_row(row, plan);
    if (plan.timed) time_row(row, *plan.timed);
  } catch (const std::exception& error) {
    row.failure += std::string(error.what()) + "\n";
  }
  row.failure += take_findings();
  row.ok = row.failure.empty();
  return row;
}

std::size_t extra_bytes(const Stage& stage, Pass pass, const Problem& p) {
  return stage.workspace_bytes(pass, p) +
         sizeof(float) * std::size_t(p.batch) * p.heads_q * p.seq_q;
}

double tflops(Pass pass, const Problem& problem, double ms) {
  return attention_flops(pass, problem) / ms * 1e-9;
}

}  // namespace cuflash::bench
