// The tests of the stages: suite = stage, test = problem, so that a filter on "01_naive" runs that
// stage's tests and no others. A test that no device could run, because the stage does not take its
// problem, is not registered: "skipped" means that this machine lacks something. The tests for
// compute-sanitizer are --gtest_filter='*.sanitize_*' (GPU only).
#include <set>

#include "cuflash/workload.h"
#include "harness/stage_check.h"
#include "harness/stage_score.h"
#include "harness/traffic.h"
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
    if (!takes(stage, pass, test.c.problem)) continue;
    add(stage, prefix + test_case_name(test.c),
        [&stage, pass, test] { computes(stage, pass, test); });
  }
  if (simt::kSimulated) return;
  for (const TestProblem& test : sanitizer_problems()) {
    if (!takes(stage, pass, test.c.problem)) continue;
    add(stage, "sanitize_" + prefix + test_case_name(test.c),
        [&stage, pass, test] { computes_unguarded(stage, pass, test.c); });
  }
}

// For each tile that the pass has, with the first head_dim and dtype that have it. Of a stage that
// does not state its tile, a likely one is tried.
void add_edges(const Stage& stage, Pass pass) {
  std::set<std::pair<int, int>> tiles;
  for (const DType dtype : {CUFLASH_F16, CUFLASH_F32}) {
    for (const int head_dim : {64, 32, 96, 128, 256}) {
      Problem p;
      p.dtype = dtype, p.head_dim = head_dim, p.softmax_scale = default_scale(head_dim);
      if (!takes(stage, pass, p)) continue;
      harness::Tile tile = {64, 64};
      if (harness::has_traffic_formula(stage, pass)) tile = harness::main_tile(stage, pass, p);
      if (tile.owned == 0 || !tiles.insert({tile.owned, tile.streamed}).second) continue;
      for (const TestProblem& test : edge_problems(pass, tile, p)) {
        if (!takes(stage, pass, test.c.problem)) continue;
        add(stage, std::string(pass_name(pass)) + "_" + test_case_name(test.c),
            [&stage, pass, test] { computes(stage, pass, test, harness::Runs::kOneUnlessFound); });
      }
    }
  }
}

void add_null(const Stage& stage, Pass pass, const std::string& output) {
  for (const int head_dim : kHeadDims) {
    const std::string d = "_d" + std::to_string(head_dim) + "_f16";
    const harness::TestCase c = case_of("b1_h2_q40k70" + d + "_causal_no_" + output);
    if (!takes(stage, pass, c.problem, c.options.features())) continue;
    add(stage, std::string(pass_name(pass)) + "_null_" + output + d,
        [&stage, pass, c] { accepts_null(stage, pass, c); });
  }
}

// A stage that adds in one order alone computes the same as without the option, and has one
// problem.
void add_any_order(const Stage& stage) {
  bool added = false;
  for (const char* name :
       {"b1_h2_q100k30_d64_f16_left8_right4", "b1_h2_q130k300_d64_f16_causal",
        "b1_h1_q70k200_d32_bf16_left40_right7", "b1_h1_q64k150_d96_f16", "b1_h4x2_q37k271_d128_f16",
        "b1_h1_q70k200_d256_bf16_causal", "b1_h2_q40k170_d64_f16_no_dk"}) {
    const harness::TestCase c = case_of(name);
    if (!takes(stage, CUFLASH_BACKWARD, c.problem, c.options.features())) continue;
    if (added && !stage.backward.any_order) break;
    added = true;
    add(stage, std::string("backward_in_any_order_") + name,
        [&stage, c] { computes_in_any_order(stage, c); });
  }
}

// For the stages that have one kernel for all gradients.
void add_null_products(const Stage& stage) {
  if (!stage.backward.any_order || !simt::kSimulated) return;
  for (const char* name : {"b1_h1_q70k150_d64_f16", "b1_h1_q70k70_d128_bf16"}) {
    const Problem problem = case_of(name).problem;
    if (!takes(stage, CUFLASH_BACKWARD, problem, {unsigned(Feature::kNullGradients)})) continue;
    add(stage, std::string("backward_no_product_for_null_") + name,
        [&stage, problem] { computes_no_product_for_null(stage, problem); });
  }
}

void add_few_blocks(const Stage& stage, Pass pass) {
  if (!stage.facts(pass).resident) return;
  for (const char* name :
       {"b1_h2_q700k200_d64_f16_causal", "b1_h1_q900k200_d64_f16", "b2_h4x2_q300k150_d128_bf16",
        "b1_h1_q500k70_d32_f16", "b1_h2_q300k200_d96_f16_left40_right7",
        "b1_h2_q300k90_d256_f16_causal", "b1_h5_q780k20_d64_f16",
        "b1_h2_q33k300_d64_f16_left40_right7", "b1_h5_q70k140_d64_f16"}) {
    const TestProblem test = {"few blocks", case_of(name)};
    if (!takes(stage, pass, test.c.problem)) continue;
    add(stage, std::string(pass_name(pass)) + "_in_few_blocks_" + name,
        [&stage, pass, test] { computes_with_few_blocks(stage, pass, test); });
  }
}

// For the stages with barriers in shared memory.
void add_lagging(const Stage& stage, Pass pass) {
  if (!simt::kSimulated || stage.facts(pass).arch.compute_capability < 90) return;
  for (const char* name : {"b1_h2_q700k200_d64_f16_causal", "b1_h2_q33k300_d64_f16_left40_right7",
                           "b2_h4x2_q300k150_d128_bf16", "b1_h2_q300k200_d96_f16_left40_right7",
                           "b1_h2_q300k90_d256_f16_causal", "b1_h1_q300k500_d32_f16"}) {
    const harness::TestCase c = case_of(name);
    if (!takes(stage, pass, c.problem)) continue;
    add(stage, std::string(pass_name(pass)) + "_with_a_lane_that_lags_" + name,
        [&stage, pass, c] { computes_with_a_lane_that_lags(stage, pass, c); });
  }
}

void add_memory(const Stage& stage, Pass pass) {
  const std::string suffix = std::string("_") + pass_name(pass);
  add(stage, "memory_grows_as_declared" + suffix,
      [&stage, pass] { memory_grows_as_declared(stage, pass); });
  if (!takes(stage, pass, allocation_problem())) return;
  add(stage, "allocates_nothing_else" + suffix,
      [&stage, pass] { allocates_nothing_else(stage, pass); });
}

// A problem, some of its queries, and the rule that hides keys from all of these queries.
struct HiddenKeys {
  const char* rule;
  const char* name;
  int begin, end;  // the queries begin, …, end − 1
};
constexpr HiddenKeys kHiddenKeys[] = {
    {"causality", "b1_h2_q70k70_d64_f16_causal", 0, 37},
    {"causality", "b1_h1_q50k90_d32_f16_causal", 0, 37},
    {"window", "b1_h2_q150k150_d64_f16_causal_left30", 64, 100},
    {"window", "b1_h1_q80k130_d32_f16_left20_right10", 37, 50},
};

void add_hidden_keys(const Stage& stage) {
  for (const auto& [rule, name, begin, end] : kHiddenKeys) {
    const Problem problem = case_of(name).problem;
    if (!takes(stage, CUFLASH_FORWARD, problem)) continue;
    const Rows rows = {begin, end};
    add(stage, std::string(rule) + '_' + name,
        [&stage, problem, rows] { ignores_hidden_keys(stage, problem, rows); });
  }
}

void add_agreement(const Stage& stage, Pass pass) {
  const Stage* const other = followed(stage, pass);
  if (other == nullptr) return;
  for (const char* name : {"b1_h2_q65k97_d64_f16_causal", "b1_h2_q65k97_d64_bf16"}) {
    const Problem problem = case_of(name).problem;
    if (!takes(stage, pass, problem) || !takes(*other, pass, problem)) continue;
    add(stage, "agrees_with_" + std::string(other->name) + "_" + pass_name(pass) + "_" + name,
        [&stage, pass, problem] { agrees_with_followed(stage, pass, problem); });
  }
}

void add_extremes(const Stage& stage, Pass pass) {
  const auto add_test = [&](const std::string& name, const std::string& problem, auto test) {
    for (const DType dtype : kDTypes) {
      Problem p = case_of(problem).problem;
      p.dtype = dtype;
      if (!takes(stage, pass, p)) continue;
      add(stage, std::string(pass_name(pass)) + "_" + name + "_" + dtype_name(dtype),
          [&stage, pass, p, test] { test(stage, pass, p); });
    }
  };
  // These expect the results of attention, not of a stage that computes something else.
  const bool computes_attention = harness::score_of(stage).value == nullptr;
  if (computes_attention && pass == CUFLASH_FORWARD) {
    add_test("scores_far_below_zero", "b1_h1_q70k70_d64_causal", scores_far_below_zero);
    // Rows whose first tile holds no key that they see.
    add_test("scores_far_below_zero_in_a_window", "b1_h1_q70k70_d64_causal_left4",
             scores_far_below_zero);
    add_test("an_infinite_v_stays_in_its_head", "b1_h3_q70k70_d64",
             an_infinite_v_stays_in_its_head);
    for (const std::string head_dim : {"d64", "d128"}) {
      add_test("a_row_does_not_depend_on_others_" + head_dim, "b1_h1_q66k300_" + head_dim,
               a_row_does_not_depend_on_others);
    }
    if (!stage.forward.keeps_scores) {
      add_test("sees_the_end_of_the_longest_head", "b1_h1_q200k2147483391_d64_left100_right1000",
               sees_the_end_of_the_longest_head);
    }
    for (const std::string head_dim : {"d32", "d64", "d96", "d128", "d256"}) {
      add_test("finds_one_key_" + head_dim, "b1_h1_q70k150_" + head_dim, finds_one_key);
      add_test("averages_equal_keys_" + head_dim, "b1_h1_q130k130_" + head_dim + "_causal",
               averages_equal_keys);
    }
  }
  if (computes_attention && pass == CUFLASH_BACKWARD) {
    add_test("gradients_large_before_the_scale", "b1_h1_q96k2_d64",
             gradients_large_before_the_scale);
    // The last tile of keys is half full, or nearly empty: there the score would be 0.
    add_test("scores_far_below_zero", "b1_h1_q192k64_d64", gradients_of_scores_far_below_zero);
    add_test("scores_far_below_zero_at_the_end", "b1_h1_q130k130_d128",
             gradients_of_scores_far_below_zero);
  }
  add_test("refuses_too_many_blocks_d128", "b1_h1_q1k1_d128", refuses_too_many_blocks);
  if (!simt::counts_accesses()) return;
  add_test("rows_far_apart", "b1_h1_q9k9_d64_causal", rows_far_apart);
  add_test("a_wide_window_costs_nothing", "b1_h2_q70k50_d64", a_wide_window_costs_nothing);
  for (const char* head_dim : {"d32", "d64", "d128"}) {
    const std::string problem = std::string("b1_h1_q40k40_") + head_dim;
    add_test(std::string("shared_memory_") + head_dim, problem,
             asks_for_the_declared_shared_memory);
  }
}

// For the stages whose kernels run beside copies and products: what they get wrong may depend on
// the lengths in ways that the table does not try.
void add_random(const Stage& stage, Pass pass) {
  if (stage.facts(pass).arch.compute_capability < 90) return;
  add(stage, std::string(pass_name(pass)) + "_random_problems",
      [&stage, pass] { computes_random_problems(stage, pass); });
}

// For the stages that read lengths on the device.
void add_cache(const Stage& stage) {
  const auto add_tests = [&](const std::string& what, auto test,
                             std::initializer_list<const char*> names) {
    for (const std::string name : names) {
      const Problem problem = case_of(name).problem;
      const unsigned needs = unsigned(Feature::kLengths) | unsigned(Feature::kKvBatch);
      if (!takes(stage, CUFLASH_FORWARD, problem, {needs})) continue;
      add(stage, "forward_" + what + "_" + name, [&stage, problem, test] { test(stage, problem); });
    }
  };
  add_tests("with_lengths", computes_with_lengths,
            {"b3_h8x2_q1k300_d64_f16", "b5_h4x4_q1k700_d128_bf16_split128",
             "b4_h8x1_q3k200_d32_f16_causal", "b3_h6x2_q7k260_d96_bf16_causal_left50",
             "b3_h4x1_q2k170_d256_f16_causal_parts3", "b2_h4x2_q20k300_d128_f16_causal_split64",
             "b40_h2x1_q1k70_d64_bf16", "b3_h4x1_q9k300_d64_f16_left20_right7_parts5",
             "b3_h8x2_q1k300_d64_f16_page16", "b5_h4x4_q1k700_d128_bf16_split128_page64",
             "b4_h8x1_q3k200_d32_f16_causal_page48", "b3_h6x2_q7k260_d96_bf16_causal_left50_page32",
             "b3_h4x1_q2k170_d256_f16_causal_parts3_page16", "b3_h4x2_q9k300_d64_bf16_page256"});
  add_tests("without_keys", computes_without_keys,
            {"b4_h4x1_q2k200_d64_f16_causal", "b4_h4x1_q2k200_d128_bf16_split64",
             "b4_h4x2_q2k200_d64_f16_parts3"});
  add_tests("spreads_nan", spreads_nan,
            {"b2_h4x2_q1k300_d64_f16", "b2_h4x2_q1k300_d64_f16_split64"});
  add_tests(
      "same_bits", gives_a_row_the_same_bits,
      {"b3_h4x1_q5k400_d64_f16_causal_split64", "b3_h8x2_q3k400_d128_bf16_split128",
       "b2_h4x1_q6k300_d256_f16_causal_left90_split64",
       "b3_h4x1_q5k400_d64_f16_causal_split64_page16", "b3_h8x2_q3k400_d128_bf16_split128_page80"});
  add_tests("misses_pages", misses_pages,
            {"b3_h4x2_q2k193_d64_f16_causal_page16", "b3_h4x2_q2k200_d128_bf16_split64_page32",
             "b3_h4x1_q1k130_d256_f16_parts2_page16"});
  add_tests("shares_pages", shares_pages, {"b3_h4x2_q2k200_d64_f16_page16"});
}

void add_pass(const Stage& stage, Pass pass) {
  if (!stage.has(pass)) return;
  add_problems(stage, pass);
  add_edges(stage, pass);
  add_extremes(stage, pass);
  add_memory(stage, pass);
  add_agreement(stage, pass);
  add_random(stage, pass);
  add_few_blocks(stage, pass);
  add_lagging(stage, pass);
  if (pass == CUFLASH_FORWARD) {
    add_cache(stage);
    add_null(stage, pass, "lse");
  } else {
    add_any_order(stage);
    add_null_products(stage);
    for (const char* output : {"dq", "dk", "dv", "dk_no_dv", "dq_no_dv", "dq_no_dk"}) {
      add_null(stage, pass, output);
    }
  }
}

void add_stage(const Stage& stage) {
  add(stage, "runs_what_it_declares", [&stage] { runs_what_it_declares(stage); });
  add(stage, "states_its_products", [&stage] { states_its_products(stage); });
  const bool local = stage.name[0] == '9';  // made by scripts/new_stage.sh: it has no formula
  if (!local) {
    add(stage, "has_traffic_formula", [&stage] { has_traffic_formula(stage); });
  }
  add_pass(stage, CUFLASH_FORWARD);
  add_pass(stage, CUFLASH_BACKWARD);
  add_hidden_keys(stage);
}

}  // namespace
}  // namespace cuflash::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (const cuflash::Stage* stage : cuflash::stages()) cuflash::tests::add_stage(*stage);
  return RUN_ALL_TESTS();
}
