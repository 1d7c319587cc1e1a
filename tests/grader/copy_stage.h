// A stage that copies Q to O through shared memory, and the same with planted mistakes, for the
// grader's own tests.
#ifndef CUFLASH_TESTS_GRADER_COPY_STAGE_H_
#define CUFLASH_TESTS_GRADER_COPY_STAGE_H_

#include <gtest/gtest.h>

#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "simt/machine.h"

namespace cuflash::exercises {

enum class Planted {
  kNone,
  kDoubled,          // writes twice the value
  kLastRowLeftOut,   // does not write the last row of O
  kOneRowMore,       // writes LSE, too
  kRowsTooClose,     // reads sQ as if its rows had no padding
  kPaddingRead,      // reads four columns further to the right
  kOtherTensor,      // loads K in place of Q
  kTwoMoreBarriers,  // in the student's lines one; it copies the one row of V
};

constexpr int kRows = 4, kHeadDim = 32, kPitch = kHeadDim + 4;

// Four queries of one head, f32: one block of one warp.
inline Problem copy_problem(DType dtype = CUFLASH_F32) {
  Problem p;
  p.dtype = dtype;
  EXPECT_TRUE(parse_problem("b1_h1_q4k16_d32", p));
  return p;
}

Stage copy_stage(Planted planted);
// Writes the numbers 0 to 31 into its workspace, as a stage that keeps S does, or one that does
// not.
Stage workspace_stage(bool keeps_scores);

class GraderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!simt::counts_accesses()) GTEST_SKIP() << "compiled without hooks: accesses are not seen";
  }
  void TearDown() override {
    EXPECT_TRUE(simt::take_findings().empty()) << "the grader leaves no findings";
  }
};

}  // namespace cuflash::exercises

#endif  // CUFLASH_TESTS_GRADER_COPY_STAGE_H_
