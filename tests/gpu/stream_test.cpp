// A call returns when its work is queued: it waits for nothing, even if its stream is blocked.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "blocked.h"
#include "cold.h"
#include "harness/reference_outputs.h"
#include "support/api_call.h"
#include "support/api_example.h"
#include "support/expect.h"

namespace cuflash {
namespace {

using harness::DeviceBuffer;
using harness::ReferenceOutputs;
using harness::Stream;

const Problem kProblem = problem_of("b2_h4x2_q77k131_d64_f16_causal");

// One way to make the call, with its own tensors: it is checked after all others are queued.
struct Way {
  const char* stage;
  bool own_workspace;  // the caller's
  ApiCall call;
  DeviceBuffer workspace;

  Way(const char* name, bool own, Pass pass, const ReferenceOutputs& expected)
      : stage(name),
        own_workspace(own),
        call(pass, kProblem, expected.inputs),
        workspace(own ? workspace_bytes(pass, kProblem, name) : 0) {}

  std::string name() const {
    return std::string(shown(stage)) + ", workspace of the " +
           (own_workspace ? "caller's" : "library's");
  }
  void queue(const Stream& stream) const {
    SCOPED_TRACE(name());
    expect_success(call.queue(stream.get(), stage, workspace.data()));
  }
  void expect_right(const ReferenceOutputs& expected) const {
    SCOPED_TRACE(name());
    cuflash::expect_right(call.outputs(), expected);
  }
};

std::vector<Way> all_ways(Pass pass, const ReferenceOutputs& expected) {
  std::vector<Way> ways;
  for (const char* stage : ways_to_run(pass, kProblem)) {
    for (const bool own : {false, true}) ways.emplace_back(stage, own, pass, expected);
  }
  return ways;
}

// Queues each way on a blocked stream. Meanwhile another stream computes the same.
void returns_while_blocked(Pass pass) {
  const auto expected = harness::reference_outputs(pass, kProblem, {});
  const std::vector<Way> ways = all_ways(pass, *expected);
  const Way beside(nullptr, false, pass, *expected);
  const Stream stream(cudaStreamNonBlocking), other(cudaStreamNonBlocking);
  for (const Way& way : ways) {  // Kernels are loaded when they first run; the cold tests see that.
    way.queue(stream);
    stream.synchronize();
    way.call.poison();
  }
  {
    Blocked blocked(stream);
    for (const Way& way : ways) {
      way.queue(stream);
      ASSERT_TRUE(blocked.holds()) << way.name() << ": the call waited for its stream";
    }
    beside.queue(other);
    other.synchronize();
    ASSERT_TRUE(blocked.holds()) << "work on another stream waited for the blocked one";
    blocked.release();
    stream.synchronize();
  }
  for (const Way& way : ways) way.expect_right(*expected);
  beside.expect_right(*expected);
}

class BlockedStream : public Api {};

TEST_F(BlockedStream, ForwardReturns) { returns_while_blocked(CUFLASH_FORWARD); }
TEST_F(BlockedStream, BackwardReturns) { returns_while_blocked(CUFLASH_BACKWARD); }

// The runtime does not keep the answer "not ready" as an error (CUDA 12.4, 12.8 and 13.0 do not);
// if one does, a call after it must still run.
TEST_F(BlockedStream, APolledStreamIsNoEarlierError) {
  const auto expected = harness::reference_outputs(CUFLASH_FORWARD, kProblem, {});
  const Way way(nullptr, false, CUFLASH_FORWARD, *expected);
  const Stream stream(cudaStreamNonBlocking);
  Blocked blocked(stream);
  ASSERT_EQ(cudaStreamQuery(stream.get()), cudaErrorNotReady);
  way.queue(stream);
  blocked.release();
  stream.synchronize();
  way.expect_right(*expected);
}

// The tests above rely on this: a call that waits is detected, and does not hang the test.
TEST_F(BlockedStream, HoldsUntilReleasedOrOutOfPatience) {
  const Stream stream(cudaStreamNonBlocking);
  {
    Blocked blocked(stream);
    EXPECT_TRUE(blocked.holds());
    blocked.release();
    stream.synchronize();
    EXPECT_FALSE(blocked.holds());
  }
  Blocked impatient(stream, std::chrono::milliseconds(100));
  stream.synchronize();  // As a call that waits would: nobody releases the stream.
  EXPECT_FALSE(impatient.holds());
}

// ---- The first call of a process on a blocked stream --------------------------------------------

// CUDA loads a kernel when it first runs, and may wait for the device meanwhile, as c_api.h says.
// Here all kernels are loaded at start, so that a first call shows whether it waits for anything
// else.
class BlockedStreamCold : public Api {
 protected:
  void SetUp() override {
    if (!is_alone()) GTEST_SKIP() << kNotAlone;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    Api::SetUp();
  }

  void returns_first(Pass pass, const char* stage) {
    const auto expected = harness::reference_outputs(pass, kProblem, {});
    const Way way(stage, false, pass, *expected);
    const Stream stream(cudaStreamNonBlocking);
    {
      Blocked blocked(stream);
      way.queue(stream);
      EXPECT_TRUE(blocked.holds()) << way.name() << ": the process's first call waited";
      blocked.release();
      stream.synchronize();
    }
    way.expect_right(*expected);
  }
};

TEST_F(BlockedStreamCold, Forward) { returns_first(CUFLASH_FORWARD, nullptr); }
TEST_F(BlockedStreamCold, Backward) { returns_first(CUFLASH_BACKWARD, nullptr); }
TEST_F(BlockedStreamCold, ForwardWithAWorkspace) { returns_first(CUFLASH_FORWARD, "01_naive"); }

}  // namespace
}  // namespace cuflash
