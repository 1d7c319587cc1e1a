#include "stage_test.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "cuflash/workload.h"
#include "harness/stage_check.h"
#include "harness/stage_score.h"
#include "harness/traffic.h"
#include "support/expect.h"
#include "support/need_device.h"

namespace cuflash::tests {
namespace {

using harness::Inputs;
using harness::Outputs;

// Fails the test for each fault that the CPU simulator found outside a check.
void report_findings() {
  for (const simt::Finding& finding : simt::take_findings()) ADD_FAILURE() << finding.message();
}

void expect_traffic(const Stage& stage, Pass pass, const harness::TestCase& c,
                    const simt::Counts& counts) {
  const Device device = harness::told_device(c.options);
  const auto formula = harness::predicted_traffic(stage, pass, c.problem, device);
  if (!formula) return;
  EXPECT_EQ(counts.global_read_bytes, formula->read_bytes) << "bytes read are not the formula's";
  EXPECT_EQ(counts.global_write_bytes, formula->write_bytes)
      << "bytes written are not the formula's";
  EXPECT_EQ(counts.bank_conflicts, formula->bank_conflicts)
      << "bank conflicts are not the formula's";
}

// True if one of these queries sees the key, by the definition of the mask, or by the stage's own.
bool sees(const Stage& stage, const Problem& p, Rows rows, int key) {
  const reference::Score& score = harness::score_of(stage);
  if (score.value != nullptr) {
    for (int i = rows.begin; i < rows.end; ++i) {
      if (score.value(p, i, key, 0.) != reference::kHidden) return true;
    }
    return false;
  }
  const std::int64_t offset = p.seq_kv - p.seq_q;
  const int right = p.causal ? 0 : p.window_right;
  return (p.window_left < 0 || key >= rows.begin + offset - p.window_left) &&
         (right < 0 || key <= rows.end - 1 + offset + right);
}

// The instructions for matrix products of a backward pass with these gradients.
std::int64_t products_issued(const Stage& stage, const Problem& problem, const Inputs& inputs,
                             bool dq, bool dk, bool dv) {
  harness::CallOptions options;
  options.dq = dq, options.dk = dk, options.dv = dv;
  simt::reset_counts();
  harness::run(stage, CUFLASH_BACKWARD, problem, inputs, options);
  return static_cast<std::int64_t>(simt::counts().products);
}

// True if both stages compute the same attention.
bool same_score(const Stage& a, const Stage& b) {
  return harness::score_of(a).value == harness::score_of(b).value;
}

// The inputs and results of a problem with N(0, 1) inputs, for a stage.
std::shared_ptr<const harness::ReferenceOutputs> gaussian(const Stage& stage, Pass pass,
                                                          const Problem& problem) {
  return harness::reference_outputs(pass, problem, {}, harness::score_of(stage));
}

}  // namespace

void StageTest::SetUp() { need_device(); }

void StageTest::TestBody() {
  try {
    body_();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  simt::set_schedule({});
  report_findings();
}

bool takes(const Stage& stage, Pass pass, const Problem& problem) {
  const ArchRequirement arch = stage.facts(pass).arch;
  Device ideal;
  ideal.compute_capability = arch.exact ? arch.compute_capability : ideal.newest_code;
  ideal.shared_bytes = std::numeric_limits<std::size_t>::max();
  return bool(supports(stage, pass, problem, ideal));
}

const Stage* followed(const Stage& stage, Pass pass) {
  const PassFacts& facts = stage.facts(pass);
  const Stage* const other = facts.repeats ? nullptr : find_stage(facts.follows);
  return other != nullptr && same_score(stage, *other) ? other : nullptr;
}

void computes(const Stage& stage, Pass pass, const TestProblem& test, harness::Runs runs) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, test.c.problem);
  SCOPED_TRACE(test.intent);
  try {
    const harness::StageCheck check = check_stage(stage, pass, test.c, runs);
    if (!check.ok()) ADD_FAILURE() << check.failures();
    for (const harness::Run& run : check.runs) {
      SCOPED_TRACE(run.schedule);
      if (run.counts) expect_traffic(stage, pass, test.c, *run.counts);
    }
  } catch (const harness::CudaError& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
    GTEST_SKIP() << "This device is too small: " << error.what();
  }
}

void computes_in_any_order(const Stage& stage, harness::TestCase c) {
  CUFLASH_SKIP_UNSUPPORTED(stage, CUFLASH_BACKWARD, c.problem);
  c.options.deterministic = false;
  const harness::StageCheck check = check_stage(stage, CUFLASH_BACKWARD, c, harness::Runs::kAll);
  if (!check.ok()) ADD_FAILURE() << check.failures();
}

void computes_with_few_blocks(const Stage& stage, Pass pass, TestProblem test) {
  for (const int blocks : {1, 3}) {
    SCOPED_TRACE(std::to_string(blocks) + " blocks");
    test.c.options.sms = blocks;
    computes(stage, pass, test);
  }
}

void computes_with_a_lane_that_lags(const Stage& stage, Pass pass, const harness::TestCase& c) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, c.problem);
  simt::set_schedule({simt::Schedule::Order::kLagging, 7});
  const harness::StageCheck check = check_stage(stage, pass, c, harness::Runs::kOne);
  if (!check.ok()) ADD_FAILURE() << check.failures();
}

void computes_unguarded(const Stage& stage, Pass pass, harness::TestCase c) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, c.problem);
  c.options.guards = false;
  const auto want = harness::reference_outputs(pass, c.problem, c.source, harness::score_of(stage));
  expect_right(harness::run(stage, pass, c.problem, want->inputs, c.options), *want);
}

void ignores_hidden_keys(const Stage& stage, const Problem& problem, Rows rows) {
  CUFLASH_SKIP_UNSUPPORTED(stage, CUFLASH_FORWARD, problem);
  Inputs inputs = gaussian(stage, CUFLASH_FORWARD, problem)->inputs;
  const Outputs before = harness::run(stage, CUFLASH_FORWARD, problem, inputs);

  // A stage's own mask may hide these keys from the other rows, too.
  const auto others_see = [&](int key) {
    return (rows.begin > 0 && sees(stage, problem, {0, rows.begin}, key)) ||
           (rows.end < problem.seq_q && sees(stage, problem, {rows.end, problem.seq_q}, key));
  };
  bool rest_may_change = false;
  for (auto* tensor : {&inputs.k, &inputs.v}) {
    for (std::size_t i = 0; i < tensor->size(); ++i) {
      const int key = static_cast<int>(i / problem.head_dim % problem.seq_kv);
      if (sees(stage, problem, rows, key)) continue;
      (*tensor)[i] *= -2.f;
      rest_may_change = rest_may_change || others_see(key);
    }
  }
  const Outputs after = harness::run(stage, CUFLASH_FORWARD, problem, inputs);

  for (const char* name : {"O", "LSE"}) {
    const auto &a = before.tensors.at(name), &b = after.tensors.at(name);
    const int width = name == std::string("O") ? problem.head_dim : 1;
    bool rest_changed = false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const int row = static_cast<int>(i / width % problem.seq_q);
      const bool same = std::memcmp(&a[i], &b[i], sizeof(float)) == 0;
      if (row < rows.begin || row >= rows.end) {
        rest_changed = rest_changed || !same;
      } else {
        ASSERT_TRUE(same) << name << ", row " << row << ", sees a key that it must not see: those "
                          << "that rows " << rows.begin << " to " << rows.end - 1
                          << " do not see have changed, and " << a[i] << " became " << b[i];
      }
    }
    EXPECT_TRUE(rest_changed || !rest_may_change) << name << " does not depend on K and V at all";
  }
}

void accepts_null(const Stage& stage, Pass pass, const harness::TestCase& c) {
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, c.problem);
  const harness::StageCheck check = check_stage(stage, pass, c, harness::Runs::kOneUnlessFound);
  if (!check.ok()) ADD_FAILURE() << check.failures();
  const Outputs& without = check.runs.front().outputs;
  const Outputs whole =
      harness::run(stage, pass, c.problem, gaussian(stage, pass, c.problem)->inputs);
  const int null = !c.options.lse + !c.options.dq + !c.options.dk + !c.options.dv;
  EXPECT_EQ(whole.tensors.size(), without.tensors.size() + null);
  if (stage.facts(pass).features.has(Feature::kDeterministic)) {
    EXPECT_EQ(first_difference(whole, without), "");
  }
}

void computes_no_product_for_null(const Stage& stage, const Problem& problem) {
  CUFLASH_SKIP_UNSUPPORTED(stage, CUFLASH_BACKWARD, problem);
  const auto want = gaussian(stage, CUFLASH_BACKWARD, problem);
  const auto issued = [&](bool dq, bool dk, bool dv) {
    return products_issued(stage, problem, want->inputs, dq, dk, dv);
  };
  const std::int64_t all = issued(true, true, true);
  const std::int64_t dq = all - issued(false, true, true), dk = all - issued(true, false, true),
                     dv = all - issued(true, true, false);
  EXPECT_GT(dq, 0) << "dS K is computed for a null dq";
  EXPECT_GT(dk, 0) << "dSᵀ Q is computed for a null dk";
  EXPECT_GT(dv, 0) << "Pᵀ dO is computed for a null dv";
  EXPECT_EQ(issued(true, false, false), all - dk - dv) << "with dq alone";
  EXPECT_EQ(issued(false, true, false), all - dq - dv) << "with dk alone";
  EXPECT_LT(issued(false, false, true), all - dq - dk) << "dO Vᵀ is computed for dv alone";
}

void agrees_with_followed(const Stage& stage, Pass pass, const Problem& problem) {
  const Stage& previous = *followed(stage, pass);
  CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem);
  CUFLASH_SKIP_UNSUPPORTED(previous, pass, problem);

  const auto want = gaussian(stage, pass, problem);
  const Outputs a = harness::run(stage, pass, problem, want->inputs);
  const Outputs b = harness::run(previous, pass, problem, want->inputs);
  for (const harness::ReferenceTensor& tensor : want->tensors) {
    const auto &x = a.tensors.at(tensor.name), &y = b.tensors.at(tensor.name);
    double difference = 0.;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == y[i]) continue;  // Infinities too.
      const double d = std::abs(double{x[i]} - y[i]);
      difference = d > difference || std::isnan(d) ? d : difference;
    }
    EXPECT_LE(difference, 2 * tensor.limit) << tensor.name << " against " << previous.name;
  }
}

void runs_what_it_declares(const Stage& stage) {
  const Device device = current_device();
  const int has = device.compute_capability;
  const auto any = [&](Pass pass, auto&& matches) {
    for (const TestProblem& test : test_problems()) {
      const Problem& problem = test.c.problem;
      if (!matches(problem) || !takes(stage, pass, problem)) continue;
      if (supports(stage, pass, problem, device)) return true;
    }
    return false;
  };
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    if (!stage.has(pass)) continue;
    const PassFacts& facts = stage.facts(pass);
    const int needs = facts.arch.compute_capability;
    if (facts.arch.exact ? has != needs : has < needs) {
      GTEST_SKIP() << "This device does not meet the requirement of the " << pass_name(pass)
                   << " pass.";
    }
    for (const DType dtype : kDTypes) {
      if (!facts.dtypes.has(dtype)) continue;
      if (dtype == CUFLASH_BF16 && has < facts.arch.for_bf16) continue;
      EXPECT_TRUE(any(pass, [&](const Problem& p) { return p.dtype == dtype; }))
          << "every problem of the " << pass_name(pass) << " pass in " << dtype_name(dtype)
          << " is skipped";
    }
    for (const int head_dim : kHeadDims) {
      if (!facts.head_dims.has(head_dim)) continue;
      EXPECT_TRUE(any(pass, [&](const Problem& p) { return p.head_dim == head_dim; }))
          << "every problem of the " << pass_name(pass) << " pass with head_dim " << head_dim
          << " is skipped";
    }
  }
}

void states_its_products(const Stage& stage) {
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    if (!stage.has(pass)) continue;
    const PassFacts& facts = stage.facts(pass);
    ASSERT_TRUE(facts.products != nullptr) << pass_name(pass);
    const int needed = pass == CUFLASH_FORWARD ? 2 : 5;
    for (const DType dtype : kDTypes) {
      for (const int head_dim : kHeadDims) {
        Problem p;
        p.dtype = dtype;
        p.head_dim = head_dim;
        if (!takes(stage, pass, p)) continue;
        EXPECT_GE(facts.products(p), needed) << pass_name(pass) << ' ' << problem_name(p);
        EXPECT_LE(facts.products(p), 2 * needed) << pass_name(pass) << ' ' << problem_name(p);
      }
    }
  }
}

void has_traffic_formula(const Stage& stage) {
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    EXPECT_EQ(harness::has_traffic_formula(stage, pass), stage.has(pass))
        << "stages/" << stage.name << "/traffic.cu states the formula of the " << pass_name(pass)
        << " pass";
  }
}

}  // namespace cuflash::tests
