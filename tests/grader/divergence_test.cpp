// Where a wrong kernel first does something else than the right one.
#include "divergence.h"

#include <cmath>

#include "copy_stage.h"
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
  expect_words(found.cause.message, "each is 2 times what the stage stores");
  expect_words(found.store,
               " In copied the first store that differs from the stage's own is to O[0][0]");
  expect_words(found.store, "block 0, thread 0");
  expect_words(found.store, "Others differ in O[0 to 3][0 to 31].");
}

TEST_F(DivergenceTest, AStoreThatIsMissing) {
  const Diagnosis found = said_of(Planted::kLastRowLeftOut).cause;
  EXPECT_EQ(found.id, kNeverStored);
  expect_words(found.message, "never writes O[3][0], and others in O[3][0 to 31]");
  expect_words(found.message, "copy_stage.cu:");
}

TEST_F(DivergenceTest, AStoreTooMany) {
  const Diagnosis found = said_of(Planted::kOneRowMore).cause;
  EXPECT_EQ(found.id, "stray-store");
  expect_words(found.message, "LSE[");
  expect_words(found.message, "p.lse[thread] = 1.f");
}

TEST_F(DivergenceTest, AWrongDistanceOfRows) {
  const Divergence found = said_of(Planted::kRowsTooClose);
  EXPECT_EQ(found.cause.id, kWrongPitch);
  expect_words(found.cause.message, "it goes on by 32 elements, where the rows lie 36 apart");
  expect_words(found.store, "is to O[1][0]");
}

TEST_F(DivergenceTest, AnotherTensor) {
  const Divergence found = said_of(Planted::kOtherTensor);
  EXPECT_EQ(found.cause.id, "reads-differ");
  expect_words(found.cause.message,
               "has also read K[0][0 to 3], which the stage's thread does not.");
  expect_words(found.store, "is to sQ[0][0]");
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

}  // namespace
}  // namespace cuflash::exercises
