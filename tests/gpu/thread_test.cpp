// Calls by threads that have used no CUDA before, the process's first one among them. Stages that
// need compute capability 9.0 look up a function of the driver in their first call, and the driver
// refuses a thread without a context.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "cold.h"
#include "cuflash/workload.h"
#include "harness/owners.h"
#include "harness/reference_outputs.h"
#include "support/api_call.h"
#include "support/api_example.h"
#include "support/expect.h"

namespace cuflash {
namespace {

struct Cold {
  const Stage* stage;
  Pass pass;
};

std::vector<Cold> passes_of_hopper() {
  std::vector<Cold> found;
  for (const Stage* stage : stages()) {
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      if (stage->has(pass) && stage->facts(pass).arch.compute_capability >= 90) {
        found.push_back({stage, pass});
      }
    }
  }
  return found;
}

class ThreadCold : public Api, public testing::WithParamInterface<Cold> {
 protected:
  void SetUp() override {
    if (!is_alone()) GTEST_SKIP() << kNotAlone;
    Api::SetUp();
  }
};

TEST_P(ThreadCold, Calls) {
  const auto [stage, pass] = GetParam();
  const char* const name = stage->name;
  const Problem problem = problem_of("b2_h4x2_q77k131_d64_f16_causal");
  const Support support = supports(*stage, pass, problem, current_device());
  if (!support) GTEST_SKIP() << support.reason;
  const auto want = harness::reference_outputs(pass, problem, {});
  // All memory and the stream are this thread's: the call is all that another one does.
  const ApiCall call(pass, problem, want->inputs);
  const harness::DeviceBuffer workspace(workspace_bytes(pass, problem, name));
  const harness::Stream stream;
  for (int thread = 0; thread < 2; ++thread) {  // What the first looked up must serve the second.
    call.poison();
    const auto queue = [&, name = name] {
      return call.queue(stream.get(), name, workspace.data());
    };
    expect_success(std::async(std::launch::async, queue).get());
    stream.synchronize();
    expect_right(call.outputs(), *want);
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, ThreadCold, testing::ValuesIn(passes_of_hopper()),
                         [](const auto& cold) {
                           return std::string("s") + cold.param.stage->name + '_' +
                                  pass_name(cold.param.pass);
                         });

}  // namespace
}  // namespace cuflash
