// Calls in CUDA graphs: a captured call computes, launch after launch, what a direct one computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "captured.h"
#include "cold.h"
#include "cuflash/workload.h"
#include "harness/reference_outputs.h"
#include "support/api_call.h"
#include "support/api_example.h"
#include "support/expect.h"

namespace cuflash {
namespace {

using harness::DeviceBuffer;
using harness::ReferenceOutputs;
using harness::Stream;

constexpr const char* kProblem = "b2_h4x2_q77k131_d64_f16_causal";

// Inputs and results; another seed gives other ones.
std::shared_ptr<const ReferenceOutputs> expected(Pass pass, std::uint64_t seed) {
  harness::InputSource source;
  source.seed = seed;
  return harness::reference_outputs(pass, problem_of(kProblem), source);
}

// True if the outputs still hold what ApiCall::poison() wrote.
bool untouched(const harness::Outputs& outputs) {
  return std::all_of(outputs.tensors.begin(), outputs.tensors.end(), [](const auto& tensor) {
    return std::all_of(tensor.second.begin(), tensor.second.end(),
                       [](float x) { return std::isnan(x); });
  });
}

// Captures the call, then launches it on several inputs, each beside a direct call.
void launches_like_direct_calls(const ApiCall& call, const char* stage, void* workspace,
                                cudaStreamCaptureMode mode) {
  const Stream stream(cudaStreamNonBlocking);
  call.poison();
  const Captured graph(stream, mode,
                       [&] { expect_success(call.queue(stream.get(), stage, workspace)); });
  stream.synchronize();
  EXPECT_TRUE(untouched(call.outputs())) << "the call ran while it was captured";
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto want = expected(call.pass(), seed);
    call.upload(want->inputs);
    call.poison();
    graph.run(stream);
    const harness::Outputs got = call.outputs();
    expect_right(got, *want);
    if (call.pass() == CUFLASH_BACKWARD && !has_fixed_order(stage)) continue;

    call.poison();
    expect_success(call.queue(stream.get(), stage, workspace));
    stream.synchronize();
    EXPECT_EQ(first_difference(got, call.outputs()), "") << "graph and direct call differ";
  }
}

void is_captured(Pass pass) {
  const Problem problem = problem_of(kProblem);
  const ApiCall call(pass, problem, expected(pass, 1)->inputs);
  for (const char* stage : ways_to_run(pass, problem)) {
    const DeviceBuffer workspace(workspace_bytes(pass, problem, stage));
    for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
      for (void* memory : {static_cast<void*>(nullptr), static_cast<void*>(workspace.data())}) {
        SCOPED_TRACE(std::string(shown(stage)) + ", workspace of the " +
                     (memory == nullptr ? "library's" : "caller's") + ", mode " +
                     (mode == cudaStreamCaptureModeGlobal ? "global" : "thread-local"));
        launches_like_direct_calls(call, stage, memory, mode);
      }
    }
  }
}

class Graph : public Api {};

TEST_F(Graph, ForwardIsCaptured) { is_captured(CUFLASH_FORWARD); }
TEST_F(Graph, BackwardIsCaptured) { is_captured(CUFLASH_BACKWARD); }

// As in a captured training step: both passes in one graph, which is launched several times.
TEST_F(Graph, BothPassesAreCapturedTogether) {
  const auto want = expected(CUFLASH_FORWARD, 1), gradients = expected(CUFLASH_BACKWARD, 1);
  const ApiCall first(CUFLASH_FORWARD, problem_of(kProblem), want->inputs);
  const ApiCall second(CUFLASH_BACKWARD, problem_of(kProblem), gradients->inputs);
  const Stream stream(cudaStreamNonBlocking);
  const Captured graph(stream, cudaStreamCaptureModeGlobal, [&] {
    expect_success(first.queue(stream.get(), nullptr));
    expect_success(second.queue(stream.get(), nullptr));
  });
  for (int launch = 0; launch < 3; ++launch) {
    first.poison();
    second.poison();
    graph.run(stream);
    expect_right(first.outputs(), *want);
    expect_right(second.outputs(), *gradients);
  }
}

// A graph keeps all that its kernels need: neither the objects that described the call nor what
// other calls leave behind plays a part in a launch.
TEST_F(Graph, OutlivesItsCallAndOtherCalls) {
  const auto want = expected(CUFLASH_FORWARD, 1);
  const Problem other = problem_of("b1_h3_q200k90_d64_f16");
  const auto others = harness::reference_outputs(CUFLASH_FORWARD, other, {});
  const ApiCall call(CUFLASH_FORWARD, problem_of(kProblem), want->inputs);
  const ApiCall beside(CUFLASH_FORWARD, other, others->inputs);
  const Stream stream(cudaStreamNonBlocking);
  for (const char* stage : ways_to_run(CUFLASH_FORWARD, call.problem())) {
    SCOPED_TRACE(shown(stage));
    const Captured graph(stream, cudaStreamCaptureModeGlobal,
                         [&] { expect_success(call.queue(stream.get(), stage)); });
    for (int launch = 0; launch < 3; ++launch) {
      call.poison();
      beside.poison();
      expect_success(beside.queue(stream.get(), stage));
      graph.run(stream);
      expect_right(call.outputs(), *want);
      expect_right(beside.outputs(), *others);
    }
  }
}

// While one thread captures, another thread's calls run as usual.
TEST_F(Graph, AnotherThreadCallsDuringTheCapture) {
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    SCOPED_TRACE(pass_name(pass));
    const auto want = expected(pass, 1);
    const ApiCall captured(pass, problem_of(kProblem), want->inputs);
    const ApiCall direct(pass, problem_of(kProblem), want->inputs);
    const Stream stream(cudaStreamNonBlocking), other(cudaStreamNonBlocking);
    const Captured graph(stream, cudaStreamCaptureModeThreadLocal, [&] {
      std::thread([&] {
        for (const char* stage : {"01_naive", static_cast<const char*>(nullptr)}) {
          expect_success(direct.queue(other.get(), stage));
        }
        EXPECT_EQ(cudaStreamSynchronize(other.get()), cudaSuccess);
      }).join();
      expect_success(captured.queue(stream.get(), nullptr));
    });
    expect_right(direct.outputs(), *want);
    graph.run(stream);
    expect_right(captured.outputs(), *want);
  }
}

// ---- A captured call as the first of a process --------------------------------------------------

class GraphCold : public Api {
 protected:
  void SetUp() override {
    if (!is_alone()) GTEST_SKIP() << kNotAlone;
    Api::SetUp();
  }

  void is_captured_first(Pass pass, const char* stage) {
    const auto want = expected(pass, 1);
    const ApiCall call(pass, problem_of(kProblem), want->inputs);
    const Stream stream(cudaStreamNonBlocking);
    const Captured graph(stream, cudaStreamCaptureModeGlobal,
                         [&] { expect_success(call.queue(stream.get(), stage)); });
    EXPECT_TRUE(untouched(call.outputs())) << "the call ran while it was captured";
    for (int launch = 0; launch < 2; ++launch) {
      call.poison();
      graph.run(stream);
      expect_right(call.outputs(), *want);
    }
  }
};

TEST_F(GraphCold, Forward) { is_captured_first(CUFLASH_FORWARD, nullptr); }
TEST_F(GraphCold, Backward) { is_captured_first(CUFLASH_BACKWARD, nullptr); }
TEST_F(GraphCold, ForwardWithAWorkspace) { is_captured_first(CUFLASH_FORWARD, "01_naive"); }

}  // namespace
}  // namespace cuflash
