// The tests of a stage. main.cpp registers them, by stage.
#ifndef CUFLASH_TESTS_STAGES_STAGE_TEST_H_
#define CUFLASH_TESTS_STAGES_STAGE_TEST_H_

#include <gtest/gtest.h>

#include <functional>

#include "cuflash/stage.h"
#include "harness/stage_check.h"
#include "problems.h"

namespace cuflash::tests {

// Skips the test if the stage cannot run the problem here, with the reason that users get.
#define CUFLASH_SKIP_UNSUPPORTED(stage, pass, problem)                        \
  do {                                                                        \
    const Support support = supports(stage, pass, problem, current_device()); \
    if (!support) GTEST_SKIP() << support.reason;                             \
  } while (false)

// A test that needs a device. Without one it is skipped, or fails if CUFLASH_REQUIRE_GPU=1 is set
// in the environment.
class StageTest : public testing::Test {
 public:
  explicit StageTest(std::function<void()> body) : body_(std::move(body)) {}

 protected:
  void SetUp() override;
  void TestBody() override;

 private:
  std::function<void()> body_;
};

// True if some device could run it. False if the stage itself does not take the dtype, the head
// dimension, the pass or what the call asks for: such a test would be skipped everywhere.
bool takes(const Stage& stage, Pass pass, const Problem& problem, Features also = {});
// The stage that the pass follows, or null: if the pass repeats it, or has a score of its own.
const Stage* followed(const Stage& stage, Pass pass);

// The results are within their limits, the same in every run, and nothing else is written. On the
// CPU simulator: under the schedules of `runs`, without a finding, with the traffic of the stage's
// formula.
void computes(const Stage& stage, Pass pass, const TestProblem& test,
              harness::Runs runs = harness::Runs::kAll);
// The results of a call that does not ask for the same bits in every run are within their limits,
// and nothing else is written. On the CPU simulator: under three schedules, without a finding.
void computes_in_any_order(const Stage& stage, harness::TestCase c);
// The same as computes(), with a block for all the work, and with three: the barriers of a block go
// on from one piece of work to the next.
void computes_with_few_blocks(const Stage& stage, Pass pass, TestProblem test);
// The results are within their limits under a schedule of the CPU simulator in which a lane of each
// warp lags behind the others, without a finding.
void computes_with_a_lane_that_lags(const Stage& stage, Pass pass, const harness::TestCase& c);
// The same as computes(), but one run on memory that starts uninitialised and has no guards: for
// compute-sanitizer.
void computes_unguarded(const Stage& stage, Pass pass, harness::TestCase c);

// The queries begin, …, end − 1 of every head.
struct Rows {
  int begin, end;
};
// Keys and values that none of these queries sees do not change the queries' rows of O and LSE.
void ignores_hidden_keys(const Stage& stage, const Problem& problem, Rows rows);

// An output that the case leaves out is not computed, and the other outputs stay the same.
void accepts_null(const Stage& stage, Pass pass, const harness::TestCase& c);

// A kernel that computes all gradients leaves out every product that only a null one needs, as the
// CPU simulator counts them.
void computes_no_product_for_null(const Stage& stage, const Problem& problem);

// The stage that the pass follows gives the same results.
void agrees_with_followed(const Stage& stage, Pass pass, const Problem& problem);

// On a device that meets the stage's requirement, each pass, dtype and head dimension that the
// stage declares runs at least one problem of the table.
void runs_what_it_declares(const Stage& stage);

// Each pass computes as many matrix products as it needs, and at most each of them twice.
void states_its_products(const Stage& stage);

// The ladder can predict the stage's traffic.
void has_traffic_formula(const Stage& stage);

// ---- Exact results, which are compared bit for bit (exact_test.cpp) -----------------------------

// Each query has one key, somewhere among those that it sees, whose score exceeds all others by
// hundreds: P holds zeros and a one, and a row of O is a row of V.
void finds_one_key(const Stage& stage, Pass pass, Problem problem);

// Q is 0, so that all keys weigh the same, and V holds small integers. Rows that see a power of two
// of keys have a mean that is exact before it is rounded to the dtype.
void averages_equal_keys(const Stage& stage, Pass pass, const Problem& problem);

// ---- Extreme values and addresses, and work not to be done (extreme_test.cpp) -------------------

// Forward, causal, with or without a window: every score of every row is far below any finite
// constant at which a maximum might start.
void scores_far_below_zero(const Stage& stage, Pass pass, const Problem& problem);

// Forward, several heads: infinite values of V in the first one reach no other.
void an_infinite_v_stays_in_its_head(const Stage& stage, Pass pass, const Problem& problem);

// Forward, one head: other queries in every eighth row, with scores 16 times as large, so that
// their maxima grow from tile to tile, leave the bits of all other rows as they are. Some of those
// grow moderately.
void a_row_does_not_depend_on_others(const Stage& stage, Pass pass, const Problem& problem);

// Backward, two keys: sums exceed the largest f16 before they are multiplied by the scale. dQ and
// dK do not exceed it.
void gradients_large_before_the_scale(const Stage& stage, Pass pass, const Problem& problem);

// Backward, no mask: every score is far below the 0 that a key past the last would have.
void gradients_of_scores_far_below_zero(const Stage& stage, Pass pass, const Problem& problem);

// One head with rows 2^29 elements apart: an offset inside a head needs 64 bits. On the CPU
// simulator only, in memory that is mapped and hardly touched.
void rows_far_apart(const Stage& stage, Pass pass, const Problem& problem);

// Forward, a window at the end of the most keys that a head may have: indices near 2^31.
void sees_the_end_of_the_longest_head(const Stage& stage, Pass pass, const Problem& problem);

// A problem of 2^32 heads, a grid of at least as many blocks, is refused. Nothing is launched.
void refuses_too_many_blocks(const Stage& stage, Pass pass, Problem problem);

// The largest shared memory of a launch is the amount that the stage declares. On the CPU simulator
// only.
void asks_for_the_declared_shared_memory(const Stage& stage, Pass pass, const Problem& problem);

// A window wider than the sequence hides nothing, and causes no work beyond the sequence. On the
// CPU simulator only.
void a_wide_window_costs_nothing(const Stage& stage, Pass pass, const Problem& problem);

// ---- A cache of keys: lengths and parts (cache_test.cpp) ----------------------------------------

// Each sequence has its own number of keys, which begin anywhere in the cache of another sequence:
// its results are those of these keys alone. Whatever else the caches hold is NaN.
void computes_with_lengths(const Stage& stage, const Problem& problem);
// A sequence without keys gets O = 0 and LSE = −∞; one whose length is no length gets NaN.
void computes_without_keys(const Stage& stage, const Problem& problem);
// A NaN in a value that is seen reaches the rows that see it.
void spreads_nan(const Stage& stage, const Problem& problem);
// An entry of the table that is no page makes the rows of its sequence NaN if they see a key in it,
// and is found by the CPU simulator.
void misses_pages(const Stage& stage, const Problem& problem);
// Sequences that begin with the same pages get the same bits as with pages of their own.
void shares_pages(const Stage& stage, const Problem& problem);
// With split_keys, a row has the same bits in a batch as alone: whatever the batch, the number of
// queries, the capacity and the row's place.
void gives_a_row_the_same_bits(const Stage& stage, const Problem& problem);

// ---- Memory besides the tensors: how it grows, and no other (memory_test.cpp) -------------------

// Twice the lengths need at most twice the workspace, up to a million tokens, or about four times
// as much if the pass declares that it keeps the scores.
void memory_grows_as_declared(const Stage& stage, Pass pass);

// The problem of allocates_nothing_else().
Problem allocation_problem();
// A call of the public API needs no more memory than the workspace that the stage declares.
void allocates_nothing_else(const Stage& stage, Pass pass);

// ---- Random problems, for what no table of problems lists (random_test.cpp) ---------------------

// The results of many small random problems are within their limits, and the same in every run:
// 1,000 problems on a GPU, fewer on the CPU simulator. They are the same in every run of the test
// unless CUFLASH_SEED in the environment is another number than 1.
void computes_random_problems(const Stage& stage, Pass pass);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_STAGE_TEST_H_
