// One call of the harness, by more than one stage, or by one that is told of another device.
#include "harness/stage_call.h"

#include <gtest/gtest.h>

#include "cuflash/workload.h"

namespace cuflash::harness {
namespace {

TEST(StageCall, AnotherStageHasTheTensorsAndALargeEnoughWorkspace) {
  Problem p;
  ASSERT_TRUE(parse_problem("b1_h1_q40k40_d32_f32", p));
  const Inputs inputs = make_inputs(p, {});
  const Stage &fused = *find_stage("03_online_softmax"), &naive = *find_stage("01_naive");
  ASSERT_LT(fused.forward.workspace_bytes(p), naive.forward.workspace_bytes(p));
  for (const auto& [first, other] : {std::pair(&fused, &naive), std::pair(&naive, &fused)}) {
    StageCall call(*first, CUFLASH_FORWARD, p, inputs);
    const Stream stream;
    call.queue(stream);
    call.queue(stream, *other);
    stream.synchronize();
    const Outputs outputs = call.outputs();
    EXPECT_EQ(outputs.damage, "");
    EXPECT_EQ(outputs.tensors, run(*other, CUFLASH_FORWARD, p, inputs).tensors);
    EXPECT_NE(outputs.tensors, run(*first, CUFLASH_FORWARD, p, inputs).tensors);
  }
}

TEST(StageCall, AStageIsToldOfAsManyMultiprocessorsAsAreWanted) {
  Problem p;
  ASSERT_TRUE(parse_problem("b1_h1_q8k8_d32_f32", p));
  static int told;
  Stage stage = *find_stage("01_naive");
  stage.forward.run = [](const Problem&, const Forward&, const Device& device, cudaStream_t) {
    told = device.sms;
    return FlashAttentionError::SUCCESS;
  };
  CallOptions options;
  run(stage, CUFLASH_FORWARD, p, make_inputs(p, {}), options);
  EXPECT_EQ(told, current_device().sms);
  options.sms = 1234;
  run(stage, CUFLASH_FORWARD, p, make_inputs(p, {}), options);
  EXPECT_EQ(told, 1234);
}

TEST(StageCall, AStageWithoutAFixedOrderIsNotAskedForIt) {
  Problem p;
  ASSERT_TRUE(parse_problem("b1_h1_q8k8_d32_f32", p));
  Inputs inputs = make_inputs(p, {});
  inputs.o = inputs.q, inputs.lse.resize(p.seq_q);
  static int asked;
  Stage stage = *find_stage("01_naive");
  stage.backward.run = [](const Problem&, const Backward& args, const Device&, cudaStream_t) {
    asked = args.deterministic;
    return FlashAttentionError::SUCCESS;
  };
  run(stage, CUFLASH_BACKWARD, p, inputs);
  EXPECT_EQ(asked, 1);
  stage.backward.features = stage.backward.features.without(Feature::kDeterministic);
  run(stage, CUFLASH_BACKWARD, p, inputs);
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace cuflash::harness
