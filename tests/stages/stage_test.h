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
// dimension or the pass: such a test would be skipped everywhere.
bool takes(const Stage& stage, Pass pass, const Problem& problem);
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

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_STAGE_TEST_H_
