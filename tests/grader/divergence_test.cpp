// Where a wrong kernel first does something else than the right one.
#include "divergence.h"

#include "copy_stage.h"

namespace cuflash::exercises {
namespace {

class Divergence : public GraderTest {
 protected:
  // What is said of a sample that is wrong.
  static Diagnosis said_of(Planted planted) {
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
  static void expect_words(const Diagnosis& found, const std::string& words) {
    EXPECT_NE(found.message.find(words), std::string::npos) << found.message;
  }
};

TEST_F(Divergence, None) {
  EXPECT_EQ(said_of(Planted::kNone).id, "");
  Sample right = sample();
  right.check.runs.back().error.clear();
  const Diagnosis found =
      divergence(copy_stage(Planted::kDoubled), copy_stage(Planted::kNone), {right});
  EXPECT_EQ(found.id, "") << "only wrong samples are looked at";
}

TEST_F(Divergence, AFactor) {
  const Diagnosis found = said_of(Planted::kDoubled);
  EXPECT_EQ(found.id, "value-scaled");
  expect_words(found, " In copied the first store that differs from the stage's own is to O[0][0]");
  expect_words(found, "block 0, thread 0");
  expect_words(found, "Others differ in O[0 to 3][0 to 31].");
  expect_words(found, "each is 2 times what the stage stores");
}

TEST_F(Divergence, AStoreThatIsMissing) {
  const Diagnosis found = said_of(Planted::kLastRowLeftOut);
  EXPECT_EQ(found.id, kNeverStored);
  expect_words(found, "never writes O[3][0], and others in O[3][0 to 31]");
  expect_words(found, "copy_stage.cu:");
}

TEST_F(Divergence, AStoreTooMany) {
  const Diagnosis found = said_of(Planted::kOneRowMore);
  EXPECT_EQ(found.id, "stray-store");
  expect_words(found, "LSE[");
  expect_words(found, "p.lse[thread] = 1.f");
}

TEST_F(Divergence, AWrongDistanceOfRows) {
  const Diagnosis found = said_of(Planted::kRowsTooClose);
  EXPECT_EQ(found.id, kWrongPitch);
  expect_words(found, "is to O[1][0]");
  expect_words(found, "it goes on by 32 elements, where the rows lie 36 apart");
}

TEST_F(Divergence, AnotherTensor) {
  const Diagnosis found = said_of(Planted::kOtherTensor);
  EXPECT_EQ(found.id, "reads-differ");
  expect_words(found, "is to sQ[0][0]");
  expect_words(found, "it has also read K[0][0 to 3], which the stage's thread does not.");
}

TEST_F(Divergence, PaddingIsAccessed) {
  Sample faulty = sample();
  const auto said = [&] {
    return stray_access(copy_stage(Planted::kPaddingRead), copy_stage(Planted::kNone), {faulty});
  };
  EXPECT_EQ(said().id, "") << "only samples with faults are looked at";
  faulty.check.faults.emplace_back();
  EXPECT_EQ(said().id, "padding-accessed");
  expect_words(said(), "reads sQ[0 to 3][32 to 35] in copied");
  expect_words(said(), "the elements of a row end with column 31");
}

}  // namespace
}  // namespace cuflash::exercises
