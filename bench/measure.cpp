#include "measure.h"

#include <fmt/core.h>

#include <cmath>

#include "cuflash/workload.h"
#include "harness/stage_check.h"
#include "progress.h"
#include "timing.h"

namespace cuflash::bench {
namespace {

std::string busy(const char* verb, const Stage& stage, Pass pass, const Problem& problem) {
  return fmt::format("{} {}, {} of {}", verb, stage.name, pass_name(pass), problem_name(problem));
}

void verify_row(Row& row, const Plan& plan) {
  const Progress progress(busy("Verifying", *row.stage, row.pass, plan.verified.problem));
  const auto check =
      check_stage(*row.stage, row.pass, plan.verified, harness::Runs::kOneUnlessFound);
  const harness::Run& run = check.runs.front();
  row.failure = check.failures();
  row.counted = run.counts;
  row.shared_bytes = run.shared_bytes;
  row.predicted = harness::predicted_traffic(*row.stage, row.pass, plan.verified.problem);
  if (run.accuracy.tensors.empty()) return;
  row.error = run.accuracy.worst().error;
  row.limit = run.accuracy.worst().limit;
}

void time_row(Row& row, const Plan& plan) {
  const Problem& problem = *plan.timed;
  const Progress progress(busy("Timing", *row.stage, row.pass, problem));
  const Support support = supports(*row.stage, row.pass, problem, current_device());
  if (!support) {
    row.not_timed = support.reason;
    return;
  }
  try {
    harness::CallOptions options;
    options.guards = false;
    options.deterministic = plan.verified.options.deterministic;
    harness::StageCall call(*row.stage, row.pass, problem,
                            unchecked_inputs(row.pass, {problem, {}, {}}), options);
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
  const Support support = supports(stage, pass, plan.verified.problem, current_device(),
                                   plan.verified.options.features());
  if (!support) {
    row.skipped = support.reason;
    return row;
  }
  try {
    verify_row(row, plan);
    if (plan.timed) time_row(row, plan);
  } catch (const std::exception& error) {
    row.failure += std::string(error.what()) + "\n";
  }
  row.ok = row.failure.empty();
  return row;
}

Pass pass_of(const Stage& stage) {
  return stage.has(CUFLASH_FORWARD) ? CUFLASH_FORWARD : CUFLASH_BACKWARD;
}

std::size_t extra_bytes(const Stage& stage, Pass pass, const Problem& p) {
  return stage.facts(pass).workspace_bytes(p) +
         sizeof(float) * std::size_t(p.batch) * p.heads_q * p.seq_q;
}

const harness::Inputs& unchecked_inputs(Pass pass, const harness::TestCase& c) {
  static std::string last;
  static harness::Inputs inputs;
  const std::string name = pass_name(pass) + test_case_name(c) + c.source.directory;
  if (name == last) return inputs;
  inputs = harness::make_inputs(c.problem, c.source);
  if (pass == CUFLASH_BACKWARD) {
    inputs.o = inputs.q;  // Any O suffices. The LSE makes P about 1 / seq_kv.
    const float lse = std::log(static_cast<float>(c.problem.seq_kv)) + 0.5f;
    inputs.lse.assign(inputs.q.size() / c.problem.head_dim, lse);
  }
  last = name;
  return inputs;
}

double tflops(Pass pass, const Problem& problem, double ms) {
  return attention_flops(pass, problem) / ms * 1e-9;
}

double products_tflops(const PassFacts& facts, const Problem& problem, double ms) {
  // A forward pass has the operations of two products.
  return tflops(CUFLASH_FORWARD, problem, ms) / 2 * facts.products(problem);
}

std::string ceiling_of(const PassFacts& facts, DType dtype) {
  switch (facts.products_by) {
    case ProductsBy::kMma:
      return std::string("mma_") + dtype_name(dtype);
    case ProductsBy::kWgmma:
      return std::string("wgmma_") + dtype_name(dtype);
    default:
      return "ffma";
  }
}

}  // namespace cuflash::bench
