// One call of the harness, by more than one stage.
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

}  // namespace
}  // namespace cuflash::harness
