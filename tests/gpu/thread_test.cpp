// A process's first call, made by a thread that has used no CUDA before. Stages that need compute
// capability 9.0 look up a function of the driver in their first call.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "cold.h"
#include "harness/reference_outputs.h"
#include "support/api_call.h"
#include "support/api_example.h"
#include "support/expect.h"

namespace cuflash {
namespace {

std::vector<const Stage*> stages_of_hopper() {
  std::vector<const Stage*> found;
  for (const Stage* stage : stages()) {
    if (stage->forward.arch.compute_capability >= 90) found.push_back(stage);
  }
  return found;
}

class ThreadCold : public Api, public testing::WithParamInterface<const Stage*> {
 protected:
  void SetUp() override {
    if (!is_alone()) GTEST_SKIP() << kNotAlone;
    Api::SetUp();
  }
};

TEST_P(ThreadCold, Forward) {
  const Problem problem = problem_of("b2_h4x2_q77k131_d64_f16_causal");
  const Support support = supports(*GetParam(), CUFLASH_FORWARD, problem, current_device());
  if (!support) GTEST_SKIP() << support.reason;
  const auto want = harness::reference_outputs(CUFLASH_FORWARD, problem, {});
  const auto call = [&] {
    const ApiCall call(CUFLASH_FORWARD, problem, want->inputs);
    const harness::Stream stream;
    expect_success(call.queue(stream.get(), GetParam()->name));
    stream.synchronize();
    expect_right(call.outputs(), *want);
  };
  std::async(std::launch::async, call).get();
  // The thread has ended: what it looked up must serve others.
  call();
  std::async(std::launch::async, call).get();
}

INSTANTIATE_TEST_SUITE_P(Stages, ThreadCold, testing::ValuesIn(stages_of_hopper()),
                         [](const auto& stage) { return std::string("s") + stage.param->name; });

}  // namespace
}  // namespace cuflash
