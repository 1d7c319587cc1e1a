// The tests of the stages: suite = stage, test = problem, so that a filter on "01_naive" runs that
// stage's tests and no others. For compute-sanitizer: --gtest_filter='*.sanitize_*' (GPU only).
#include "cuflash/workload.h"
#include "memory_test.h"
#include "stage_test.h"

namespace cuflash::tests {
namespace {

void add(const Stage& stage, const std::string& name, std::function<void()> body) {
  testing::RegisterTest(stage.name, name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [body] { return new StageTest(body); });
}

void add_problems(const Stage& stage, Pass pass) {
  const std::string prefix = std::string(pass_name(pass)) + "_";
  std::vector<TestProblem> problems = test_problems();
  if (!simt::kSimulated) {
    for (const TestProblem& test : large_problems()) problems.push_back(test);
  }
  for (const TestProblem& test : problems) {
    add(stage, prefix + test_case_name(test.c),
        [&stage, pass, test] { computes(stage, pass, test); });
  }
  if (simt::kSimulated) return;
  for (const TestProblem& test : sanitizer_problems()) {
    add(stage, "sanitize_" + prefix + test_case_name(test.c),
        [&stage, pass, test] { computes_unguarded(stage, pass, test.c); });
  }
}

void add_null(const Stage& stage, Pass pass, const std::string& output) {
  add(stage, std::string(pass_name(pass)) + "_null_" + output, [&stage, pass, output] {
    accepts_null(stage, pass, case_of("b1_h2_q40k70_d64_f16_causal_no_" + output));
  });
}

void add_memory(const Stage& stage, Pass pass) {
  const std::string suffix = std::string("_") + pass_name(pass);
  add(stage, "memory_grows_as_declared" + suffix,
      [&stage, pass] { memory_grows_as_declared(stage, pass); });
  add(stage, "allocates_nothing_else" + suffix,
      [&stage, pass] { allocates_nothing_else(stage, pass); });
}

void add_stage(const Stage& stage) {
  add(stage, "runs_what_it_declares", [&stage] { runs_what_it_declares(stage); });
  add(stage, "has_traffic_formula", [&stage] { has_traffic_formula(stage); });

  add_problems(stage, CUFLASH_FORWARD);
  add_null(stage, CUFLASH_FORWARD, "lse");
  add_memory(stage, CUFLASH_FORWARD);
  for (const char* name : {"b1_h2_q70k70_d64_f16_causal", "b1_h1_q50k90_d32_f16_causal"}) {
    add(stage, std::string("causality_") + name,
        [&stage, name] { respects_causality(stage, case_of(name).problem, 37); });
  }
  if (stage.has(CUFLASH_BACKWARD)) {
    add_problems(stage, CUFLASH_BACKWARD);
    add_memory(stage, CUFLASH_BACKWARD);
    for (const char* output : {"dq", "dk", "dv", "dk_no_dv"})
      add_null(stage, CUFLASH_BACKWARD, output);
  }

  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    if (&stage == stages().front() || !stage.has(pass)) continue;
    for (const char* name : {"b1_h2_q65k97_d64_f16_causal", "b1_h2_q65k97_d64_bf16"}) {
      add(stage, std::string("agrees_with_previous_") + pass_name(pass) + "_" + name,
          [&stage, pass, name] { agrees_with_previous(stage, pass, case_of(name).problem); });
    }
  }
}

}  // namespace
}  // namespace cuflash::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (const cuflash::Stage* stage : cuflash::stages()) cuflash::tests::add_stage(*stage);
  return RUN_ALL_TESTS();
}
