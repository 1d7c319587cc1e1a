// A stage with a planted race gets a report in teaching terms and a command that replays it.
#include <cmath>

#include "harness/stage_check.h"
#include "support.h"

namespace cuflash::simt {
namespace {

using harness::Runs;
using harness::StageCheck;
using harness::TestCase;

// Thread 0 reads what a thread of another warp writes to the box, and does not wait for it.
__global__ void impatient(float* o) {
  __shared__ float box[1];
  const int t = threadIdx.x;
  if (t == 0) box[0] = 0.f;
  __syncthreads();
  if (t == 40) box[0] = 1.f;
  if (t == 0) o[0] *= box[0];
}

const Stage& first() { return *stages().front(); }

// The first stage, and after it the impatient kernel.
FlashAttentionError forward(const Problem& p, const Forward& args, const Device& device,
                            cudaStream_t stream) {
  const auto error = first().forward.run(p, args, device, stream);
  if (error != FlashAttentionError::SUCCESS) return error;
  return launch(impatient, {1, 64, 0, stream}, static_cast<float*>(args.o.data));
}

Stage racy_stage() {
  Stage stage = first();
  stage.name = "95_racy";
  stage.forward.run = forward;
  return stage;
}

TestCase small_case() {
  TestCase c;
  EXPECT_TRUE(parse_test_case("b1_h1_q8k8_d32_f32", c));
  return c;
}

using StageCheckTest = AccessTest;

TEST_F(StageCheckTest, GoodStageRunsUnderThreeSchedules) {
  const StageCheck check = check_stage(first(), CUFLASH_FORWARD, small_case(), Runs::kAll);
  ASSERT_EQ(check.runs.size(), 3u);
  EXPECT_EQ(check.runs[1].schedule, "reversed");
  EXPECT_TRUE(check.ok());
  EXPECT_EQ(check.failures(), "");
  EXPECT_EQ(schedule_name(schedule()), "inorder");
}

TEST_F(StageCheckTest, GoodStageRunsOnceWhereOnceIsEnough) {
  const StageCheck check =
      check_stage(first(), CUFLASH_FORWARD, small_case(), Runs::kOneUnlessFound);
  EXPECT_EQ(check.runs.size(), 1u);
  EXPECT_GT(check.runs[0].counts->global_read_bytes, 0u);
}

TEST_F(StageCheckTest, RaceIsToldOnceAndReplayed) {
  const Stage stage = racy_stage();
  for (const Runs runs : {Runs::kAll, Runs::kOneUnlessFound}) {
    const StageCheck check = check_stage(stage, CUFLASH_FORWARD, small_case(), runs);
    ASSERT_EQ(check.runs.size(), 3u);
    EXPECT_FALSE(check.runs[0].right());
    EXPECT_TRUE(check.runs[1].right());
    ASSERT_EQ(check.faults.size(), 1u);
    const std::string& text = check.faults[0].message;
    EXPECT_EQ(text.substr(0, text.find('\n')),
              "RACE in shared memory: 95_racy forward, b1_h1_q8k8_d32_f32, kernel impatient, block "
              "(0,0,0)");
    EXPECT_NE(text.find("  box[0]"), std::string::npos) << text;
    EXPECT_NE(text.find("  The result was correct under "), std::string::npos) << text;
    EXPECT_NE(text.find(" of 3 schedules.\n  Replay: scripts/run.sh --stage 95_racy --pass forward "
                        "--shape b1_h1_q8k8_d32_f32 --schedule inorder --block 0,0,0\n"
                        "  Step by step: scripts/run.sh --play 95_racy --pass forward\n"),
              std::string::npos)
        << text;
  }
}

TEST_F(StageCheckTest, ReplayBeginsWithTheScheduleInForce) {
  Schedule reversed;
  ASSERT_TRUE(parse_schedule("reversed", reversed));
  set_schedule(reversed);
  const StageCheck check =
      check_stage(racy_stage(), CUFLASH_FORWARD, small_case(), Runs::kOneUnlessFound);
  EXPECT_EQ(check.runs[0].schedule, "reversed");
  EXPECT_TRUE(check.runs[0].right());
  EXPECT_EQ(schedule_name(schedule()), "reversed");
}

// The first stage, except that the last bit of the LSE differs between odd and even calls.
FlashAttentionError unsteady_forward(const Problem& p, const Forward& args, const Device& device,
                                     cudaStream_t stream) {
  static int calls = 0;
  const auto error = first().forward.run(p, args, device, stream);
  if (calls++ % 2 != 0) args.lse[0] = std::nextafter(args.lse[0], INFINITY);
  return error;
}

TEST_F(StageCheckTest, ResultsThatDifferAreToldOfADeterministicStage) {
  Stage stage = first();
  stage.forward.run = unsteady_forward;
  const StageCheck check = check_stage(stage, CUFLASH_FORWARD, small_case(), Runs::kAll);
  for (const harness::Run& run : check.runs) EXPECT_TRUE(run.right()) << run.schedule;
  EXPECT_FALSE(check.ok());
  EXPECT_EQ(check.failures().find("Between inorder and reversed LSE"), 0u) << check.failures();

  stage.forward.features = stage.forward.features.without(Feature::kDeterministic);
  EXPECT_TRUE(check_stage(stage, CUFLASH_FORWARD, small_case(), Runs::kAll).ok());
}

TEST_F(StageCheckTest, ResultsThatDifferAreToldOfADeterministicCall) {
  Stage stage = first();
  stage.forward.run = unsteady_forward;
  stage.forward.any_order = true;
  TestCase c = small_case();
  EXPECT_FALSE(check_stage(stage, CUFLASH_FORWARD, c, Runs::kAll).ok());
  c.options.deterministic = false;
  EXPECT_TRUE(check_stage(stage, CUFLASH_FORWARD, c, Runs::kAll).ok());
}

TEST_F(StageCheckTest, ExpandedTensorsNeedSharedInputs) {
  TestCase c;
  ASSERT_TRUE(parse_test_case("b2_h2_q8k8_d32_f32_expanded", c));
  EXPECT_THROW(check_stage(first(), CUFLASH_FORWARD, c, Runs::kOne), std::logic_error);
}

TEST_F(StageCheckTest, AStageThatFailsIsNotRight) {
  Stage stage = first();
  stage.forward.run = [](const Problem&, const Forward&, const Device&, cudaStream_t) {
    return FlashAttentionError::CUDA_ERROR;
  };
  const StageCheck check = check_stage(stage, CUFLASH_FORWARD, small_case(), Runs::kAll);
  EXPECT_FALSE(check.ok());
  EXPECT_NE(check.failures().find("Also wrong under reversed, random:7.\n"), std::string::npos);
}

}  // namespace
}  // namespace cuflash::simt
