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

TEST(Difference, StepsOfBlocks) {
  struct {
    std::vector<Moved> moved;
    std::string words;
  } const cases[] = {
      {{{0, 0, 0, 0}, {0, 8, 0, 8}, {0, 16, 0, 8}, {0, 24, 0, 16}},
       ". From 16 columns to the next 16 it goes on by 8, so that they overlap"},
      {{{0, 0, 0, 0}, {8, 0, 8, 0}, {16, 0, 32, 0}},
       ". From 16 rows to the next 16 it goes on by 32, so that some are left out"},
      {{{0, 0, 16, 0}, {8, 0, 24, 0}, {16, 0, 32, 0}}, ""},  // all begin later
      {{{0, 0, 0, 8}, {8, 0, 0, 0}, {0, 8, 8, 8}}, ""},      // rows and columns
      {{{0, 0, 0, 0}, {0, 16, 0, 8}}, ""},                   // too few to tell
  };
  for (const auto& [moved, words] : cases) EXPECT_EQ(step_of_blocks(moved), words);
}

TEST(BarrierCalls, SlotsInWords) {
  const std::vector<std::string> stage = {
      "waits for k_full[0] with parity 0", "waits for v_full[0] with parity 0",
      "waits for k_full[1] with parity 0", "waits for v_full[1] with parity 0",
      "waits for k_full[0] with parity 1"};
  // What is said of the call that comes in the place of the stage's nth.
  const auto said = [&](std::size_t n, const char* call, bool stays = false) {
    std::vector<std::string> made(stage.begin(), stage.begin() + static_cast<std::ptrdiff_t>(n));
    made.emplace_back(call);
    return slot_in_words(made, stage, stays);
  };
  EXPECT_EQ(said(2, "waits for k_full[1] with parity 1"),
            " The buffer is right. A buffer's parity changes each time that this buffer is used "
            "again, whatever happens at others.");
  EXPECT_EQ(said(2, "waits for k_full[0] with parity 0"),
            " That is the slot of the tile before: the count of tiles is behind.");
  EXPECT_EQ(said(4, "waits for k_full[1] with parity 0", true),
            " That is the slot of the tile before: the count of tiles is behind. Every tile that "
            "the block copies counts, whether or not this warp uses it.");
  EXPECT_EQ(said(0, "waits for k_full[0] with parity 1"),
            " That is the slot of 2 tiles after: the count of tiles is ahead, or runs in another "
            "order than the copies.");
  EXPECT_EQ(said(2, "waits for v_full[0] with parity 0"), "") << "another array";
  EXPECT_EQ(said(0, "waits for q_full with parity 1"), "") << "one buffer";
  EXPECT_EQ(said(2, "waits for k_full[3] with parity 0"), "") << "no slot of the stage's";
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
