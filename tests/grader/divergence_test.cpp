// Where a wrong kernel first does something else than the right one.
#include "divergence.h"

#include <cmath>

#include "copy_stage.h"
#include "costs.h"
#include "difference.h"

namespace cuflash::exercises {
namespace {

class DivergenceTest : public GraderTest {
 protected:
  // What is said of a sample that is wrong.
  static Divergence said_of(Planted planted) {
    return divergence(copy_stage(planted), copy_stage(Planted::kNone), {sample()});
  }
  static Sample sample() {
    Sample s;
    s.name = "copied";
    s.problem = copy_problem();
    s.want = harness::reference_outputs(s.pass, s.problem, {});
    s.check.runs.emplace_back();
    s.check.runs.back().error = "It is wrong.";
    return s;
  }
  static void expect_words(const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
};

TEST(Difference, NumbersInWords) {
  EXPECT_EQ(number(-std::nan("")), "NaN");
  EXPECT_EQ(number(-0.0), "0");
  EXPECT_EQ(instead_of(0.5, 0.25), "0.5 instead of 0.25");
  EXPECT_EQ(instead_of(3.28201, 3.28249), "3.282 instead of 3.2825");
}

TEST_F(DivergenceTest, None) {
  EXPECT_EQ(said_of(Planted::kNone).cause.id, "");
  Sample right = sample();
  right.check.runs.back().error.clear();
  const Divergence found =
      divergence(copy_stage(Planted::kDoubled), copy_stage(Planted::kNone), {right});
  EXPECT_EQ(found.cause.id, "") << "only wrong samples are looked at";
}

TEST_F(DivergenceTest, AFactor) {
  const Divergence found = said_of(Planted::kDoubled);
  EXPECT_EQ(found.cause.id, "value-scaled");
  expect_words(found.cause.message, "each is 2 times the stage's (it is added twice)");
  expect_words(found.cause.details, "copied: O[0][0] is ");
  expect_words(found.cause.details, "(block 0, thread 0");
  expect_words(found.cause.details, "so do others in O[0 to 3][0 to 31]\n");
}

TEST_F(DivergenceTest, AStoreThatIsMissing) {
  const Diagnosis found = said_of(Planted::kLastRowLeftOut).cause;
  EXPECT_EQ(found.id, kNeverStored);
  EXPECT_EQ(found.message, " O[3][0] is never written, nor are others in O[3][0 to 31].");
  expect_words(found.details, "of a block, O is written by the threads 0, 1, 2, ...");
  expect_words(found.more, "The stage writes it at copy_stage.cu:");
}

TEST_F(DivergenceTest, AStoreTooMany) {
  const Diagnosis found = said_of(Planted::kOneRowMore).cause;
  EXPECT_EQ(found.id, "stray-store");
  expect_words(found.message, "LSE[");
  expect_words(found.message, "which the stage never writes");
  expect_words(found.details, "p.lse[thread] = 1.f");
}

TEST_F(DivergenceTest, AWrongDistanceOfRows) {
  const Divergence found = said_of(Planted::kRowsTooClose);
  EXPECT_EQ(found.cause.id, kWrongPitch);
  expect_words(found.cause.message, "it goes on by 32 elements, where the rows lie 36 apart");
  expect_words(found.cause.details, "copied: O[1][0] is ");
}

TEST_F(DivergenceTest, AnotherTensor) {
  const Divergence found = said_of(Planted::kOtherTensor);
  EXPECT_EQ(found.cause.id, "reads-differ");
  expect_words(found.cause.message, "has also read K[0][0 to 3], which the stage's does not.");
  expect_words(found.cause.details, "copied: sQ[0][0] is ");
}

TEST_F(DivergenceTest, OtherElementsAreRead) {
  Sample faulty = sample();
  const auto said = [&] {
    return stray_access(copy_stage(Planted::kPaddingRead), copy_stage(Planted::kNone), {faulty});
  };
  EXPECT_EQ(said().id, "") << "only samples with faults are looked at";
  faulty.check.faults.emplace_back();
  EXPECT_EQ(said().id, "place-shifted");
  expect_words(said().message, "reads sQ[0 to 3][32 to 35] in copied");
  expect_words(said().message, "Each of these reads is off by 4 columns.");
}

TEST_F(DivergenceTest, NeedlessBarriersAreTheStudents) {
  Sample s = sample();
  s.name = "b1_h1_q4k1_d32_f32_no_lse";  // O is V's row.
  s.counts.barriers = 3, s.own.barriers = 1;
  const auto found = excess_barriers({s}, copy_stage(Planted::kTwoMoreBarriers));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().id, "too-many-barriers");
  const std::string& said = found.front().message;
  const std::size_t first = said.find("without the one at");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("without the one at", first + 1), std::string::npos) << said;
}

}  // namespace
}  // namespace cuflash::exercises
