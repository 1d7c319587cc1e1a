// The API's calls as a user makes them: their results, the calls that they refuse, and that a
// refused call launches nothing, writes nothing and says why.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "cuflash/stage.h"
#include "reference/reference.h"
#include "simt/simulator.h"
#include "support/api_example.h"
#include "support/expect.h"
#include "support/memory_limit.h"

namespace cuflash {
namespace {

using Error = FlashAttentionError;

// The call must return `error` with a sentence that holds `words`, launch nothing and write
// nothing.
void expect_refused(const Example& e, Error error, const std::string& words,
                    const std::function<Error()>& call) {
  const std::uint64_t before = launches();
  EXPECT_EQ(static_cast<int>(call()), static_cast<int>(error)) << last_error_message();
  EXPECT_NE(std::string(last_error_message()).find(words), std::string::npos)
      << '"' << last_error_message() << "\" lacks \"" << words << '"';
  EXPECT_EQ(launches(), before);
  EXPECT_TRUE(e.untouched());
}

// ---- What calls compute ------------------------------------------------------------------------

TEST_F(Api, FullFormComputesAttentionAndItsGradients) {
  const Example e;
  expect_success(forward(e.problem, e.forward_args()));
  expect_near(e.o, e.output().o, 3e-6);
  expect_near(e.lse, e.output().lse, 3e-6);
  expect_success(backward(e.problem, e.backward_args()));
  expect_near(e.dq, e.gradients().dq, 2e-5);
  expect_near(e.dk, e.gradients().dk, 2e-5);
  expect_near(e.dv, e.gradients().dv, 2e-5);
}

// The simple form is the full form with as many KV heads as query heads, and one length.
TEST_F(Api, SimpleFormIsTheFullFormToTheBit) {
  const Problem p{2, 2, 2, 7, 7, 32, CUFLASH_F32, true, 0.3f};
  const std::size_t size = 2 * 2 * 7 * 32;
  const Array<float> q(random_floats(size, 1)), k(random_floats(size, 2)),
      v(random_floats(size, 3)), d_o(random_floats(size, 4));
  struct Results {
    Array<float> o{poison(2 * 2 * 7 * 32)}, lse{poison(2 * 2 * 7)};
    Array<float> dq{poison(2 * 2 * 7 * 32)}, dk{dq.host()}, dv{dq.host()};
  } simple, full;
  const auto t = [](const Array<float>& a) { return contiguous(a.data(), 2, 7, 32); };

  expect_success(flash_attention_forward(q.data(), k.data(), v.data(), simple.o.data(),
                                         simple.lse.data(), 2, 2, 7, 32, 0.3f, true));
  expect_success(flash_attention_backward(
      q.data(), k.data(), v.data(), simple.o.data(), simple.lse.data(), d_o.data(),
      simple.dq.data(), simple.dk.data(), simple.dv.data(), 2, 2, 7, 32, 0.3f, true));
  expect_success(forward(p, {t(q), t(k), t(v), t(full.o), full.lse.data()}));
  expect_success(backward(p, {t(q), t(k), t(v), t(full.o), t(d_o), t(full.dq), t(full.dk),
                              t(full.dv), full.lse.data()}));
  EXPECT_EQ(simple.o.host(), full.o.host());
  EXPECT_EQ(simple.lse.host(), full.lse.host());
  EXPECT_EQ(simple.dq.host(), full.dq.host());
  EXPECT_EQ(simple.dk.host(), full.dk.host());
  EXPECT_EQ(simple.dv.host(), full.dv.host());
  EXPECT_FALSE(poisoned(simple.o) || poisoned(simple.dq));
}

// With Q = 0 every key has the same weight, and with V = 1 the output is 1 in any dtype. The
// gradient of V is then dO's column sum over seq queries, divided by seq keys: 1.
template <class T>
void expect_ones(std::uint16_t one) {
  const std::size_t size = 2 * 3 * 4 * 32;
  const Array<std::uint16_t> zeros(std::vector<std::uint16_t>(size, 0)),
      ones(std::vector<std::uint16_t>(size, one)), o(zeros.host()), dv(zeros.host());
  const Array<float> lse(poison(2 * 3 * 4));
  const auto as = [](const Array<std::uint16_t>& a) { return reinterpret_cast<T*>(a.data()); };
  expect_success(flash_attention_forward(as(zeros), as(ones), as(ones), as(o), lse.data(), 2, 3, 4,
                                         32, 1.f, false));
  EXPECT_EQ(o.host(), ones.host());
  expect_near(lse, reference::Array(2 * 3 * 4, std::log(4.0)), 1e-6);
  expect_success(flash_attention_backward(
      as(zeros), as(ones), as(ones), as(o), lse.data(), as(ones), static_cast<T*>(nullptr),
      static_cast<T*>(nullptr), as(dv), 2, 3, 4, 32, 1.f, false));
  EXPECT_EQ(dv.host(), ones.host());
}

TEST_F(Api, SimpleFormTakesHalf) { expect_ones<__half>(0x3c00); }
TEST_F(Api, SimpleFormTakesBfloat16) { expect_ones<__nv_bfloat16>(0x3f80); }

TEST_F(Api, LseMayBeNull) {
  const Example e;
  Forward args = e.forward_args();
  args.lse = nullptr;
  expect_success(forward(e.problem, args));
  expect_near(e.o, e.output().o, 3e-6);
  EXPECT_TRUE(poisoned(e.lse));
}

TEST_F(Api, ANullGradientIsNotComputed) {
  const std::pair<Tensor Backward::*, Array<float> Example::*> gradients[] = {
      {&Backward::dq, &Example::dq}, {&Backward::dk, &Example::dk}, {&Backward::dv, &Example::dv}};
  for (const auto& [wanted, unused] : gradients) {
    const Example e;
    expect_success(forward(e.problem, e.forward_args()));
    Backward args = e.backward_args();
    for (const auto& [tensor, array] : gradients) {
      if (tensor != wanted) args.*tensor = {};
    }
    expect_success(backward(e.problem, args));
    for (const auto& [tensor, array] : gradients) {
      EXPECT_EQ(poisoned(e.*array), tensor != wanted);
    }
  }
}

TEST_F(Api, WithNoGradientWantedNothingIsLaunched) {
  const Example e;
  Backward args = e.backward_args();
  args.dq = args.dk = args.dv = {};
  const std::uint64_t before = launches();
  expect_success(backward(e.problem, args));
  EXPECT_EQ(launches(), before);
  EXPECT_TRUE(e.untouched());
}

// ---- What calls refuse -------------------------------------------------------------------------

TEST_F(Api, RefusedForwardCallsTouchNothing) {
  const Example e;
  const auto refused = [&](Error error, const std::string& words,
                           const std::function<void(Problem&, Forward&)>& harm) {
    Problem p = e.problem;
    Forward args = e.forward_args();
    harm(p, args);
    expect_refused(e, error, words, [&] { return forward(p, args); });
  };
  refused(Error::INVALID_DIMENSION, "seq_kv is 0", [](auto& p, auto&) { p.seq_kv = 0; });
  refused(Error::NULL_POINTER, "K is null", [](auto&, auto& a) { a.k.data = nullptr; });
  refused(Error::MISALIGNED, "V's head_stride", [](auto&, auto& a) { a.v.head_stride += 2; });
  refused(Error::SIZE_OVERFLOW, "Q ends beyond",
          [](auto&, auto& a) { a.q.batch_stride = std::int64_t{1} << 62; });
}

TEST_F(Api, RefusedBackwardCallsTouchNothing) {
  const Example e;
  const auto refused = [&](Error error, const std::string& words,
                           const std::function<void(Problem&, Backward&)>& harm) {
    Problem p = e.problem;
    Backward args = e.backward_args();
    harm(p, args);
    expect_refused(e, error, words, [&] { return backward(p, args); });
  };
  refused(Error::INVALID_DIMENSION, "batch is -2", [](auto& p, auto&) { p.batch = -2; });
  refused(Error::NULL_POINTER, "LSE is null", [](auto&, auto& a) { a.lse = nullptr; });
  refused(Error::MISALIGNED, "dV is at",
          [](auto&, auto& a) { a.dv.data = static_cast<char*>(a.dv.data) + 4; });
  refused(Error::SIZE_OVERFLOW, "dQ ends beyond",
          [](auto&, auto& a) { a.dq.batch_stride = std::int64_t{1} << 62; });
}

TEST_F(Api, RefusedSimpleCallsTouchNothing) {
  const Example e;
  const auto simple = [&](const float* q, int batch, int heads, int seq, int head_dim,
                          float scale) {
    return flash_attention_forward(q, e.q.data(), e.q.data(), e.o.data(), e.lse.data(), batch,
                                   heads, seq, head_dim, scale, false);
  };
  const float* q = e.q.data();
  expect_refused(e, Error::INVALID_DIMENSION, "heads_q is 0",
                 [&] { return simple(q, 1, 0, 5, 32, 1.f); });
  expect_refused(e, Error::UNSUPPORTED_HEAD_DIM, "head_dim is 40",
                 [&] { return simple(q, 1, 1, 5, 40, 1.f); });
  expect_refused(e, Error::INVALID_SCALE, "softmax_scale is -1",
                 [&] { return simple(q, 1, 1, 5, 32, -1.f); });
  expect_refused(e, Error::NULL_POINTER, "Q is null",
                 [&] { return simple(nullptr, 1, 1, 5, 32, 1.f); });
  expect_refused(e, Error::MISALIGNED, "Q is at", [&] { return simple(q + 1, 1, 1, 5, 32, 1.f); });
  constexpr int kMax = std::numeric_limits<int>::max();
  expect_refused(e, Error::SIZE_OVERFLOW, "too many queries per head",
                 [&] { return simple(q, kMax, kMax, kMax, 128, 1.f); });
}

// No stage takes f32 with head_dim 96, whether the call names one or not.
TEST_F(Api, WhatNoStageTakesIsRefused) {
  const Example e;
  Problem p = e.problem;
  p.dtype = CUFLASH_F32;
  p.head_dim = 96;
  const Tensor q = contiguous(e.q.data(), p.heads_q, p.seq_q, p.head_dim);
  const Tensor kv = contiguous(e.q.data(), p.heads_kv, p.seq_kv, p.head_dim);
  const Tensor o = contiguous(e.o.data(), p.heads_q, p.seq_q, p.head_dim);
  expect_refused(e, Error::UNSUPPORTED_BY_STAGE,
                 "no stage's forward pass supports f32 with head_dim 96", [&] {
                   return forward(p, {q, kv, kv, o});
                 });
  expect_refused(e, Error::UNSUPPORTED_BY_STAGE, "04_register_tiles does not support head_dim 96",
                 [&] {
                   return forward(p, {q, kv, kv, o}, nullptr, "04");
                 });
  expect_refused(e, Error::UNSUPPORTED_BY_STAGE, "09_async_copy does not support f32", [&] {
    return forward(p, {q, kv, kv, o}, nullptr, "09");
  });
}

TEST_F(Api, TheFirstOfManyFaultsIsNamed) {
  const Example e;
  Problem p = e.problem;
  p.head_dim = 7;
  p.softmax_scale = -1.f;
  expect_refused(e, Error::UNSUPPORTED_HEAD_DIM, "head_dim is 7",
                 [&] { return forward(p, {}, nullptr, "no_such_stage"); });
  expect_refused(e, Error::NULL_POINTER, "Q is null",
                 [&] { return forward(e.problem, {}, nullptr, "no_such_stage"); });
}

// ---- The choice of stage -----------------------------------------------------------------------

TEST_F(Api, AStageCanBeNamed) {
  const Example e;
  for (const char* name : {"01_naive", "01", "naive"}) {
    expect_success(forward(e.problem, e.forward_args(), nullptr, name));
  }
  const Environment variable("CUFLASH_STAGE", "01_naive");
  expect_success(forward(e.problem, e.forward_args()));
}

TEST_F(Api, AnUnknownStageIsRefused) {
  const Example e;
  expect_refused(e, Error::UNKNOWN_STAGE,
                 "the call names stage \"99_magic\", but there is no such stage; the stages are "
                 "01_naive",
                 [&] { return forward(e.problem, e.forward_args(), nullptr, "99_magic"); });
  expect_refused(e, Error::UNKNOWN_STAGE, "names stage \"\"",
                 [&] { return backward(e.problem, e.backward_args(), nullptr, ""); });
}

TEST_F(Api, TheEnvironmentNamesAStageUnlessTheCallDoes) {
  const Example e;
  {
    const Environment variable("CUFLASH_STAGE", "99_magic");
    expect_refused(e, Error::UNKNOWN_STAGE, "CUFLASH_STAGE is \"99_magic\"",
                   [&] { return forward(e.problem, e.forward_args()); });
    expect_success(forward(e.problem, e.forward_args(), nullptr, "01_naive"));
  }
  const Environment empty("CUFLASH_STAGE", "");
  expect_success(forward(e.problem, e.forward_args()));
}

// ---- Workspace ---------------------------------------------------------------------------------

TEST_F(Api, WorkspaceBytesAreTheStages) {
  const Example e;
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    for (const Stage* stage : stages()) {
      const bool can = static_cast<bool>(supports(*stage, pass, e.problem, current_device()));
      EXPECT_EQ(workspace_bytes(pass, e.problem, stage->name),
                can ? stage->facts(pass).workspace_bytes(e.problem) : 0);
    }
    EXPECT_GT(workspace_bytes(pass, e.problem, "01_naive"), 0u);
    EXPECT_STREQ(last_error_message(), "");
    EXPECT_EQ(workspace_bytes(pass, e.problem, "99_magic"), 0u);
    Problem junk;
    junk.seq_q = 0;
    EXPECT_EQ(workspace_bytes(pass, junk), 0u);
    EXPECT_NE(std::string(last_error_message()).find("seq_q is 0"), std::string::npos);
  }
}

TEST_F(Api, TheCallersWorkspaceIsUsed) {
  const Example e;
  Forward args = e.forward_args();
  const std::size_t bytes = workspace_bytes(CUFLASH_FORWARD, e.problem, "01_naive");
  const Array<float> workspace(poison(bytes / sizeof(float)));
  args.workspace = workspace.data();
  args.workspace_bytes = bytes;
  expect_success(forward(e.problem, args, nullptr, "01_naive"));
  expect_near(e.o, e.output().o, 3e-6);
  EXPECT_FALSE(poisoned(workspace));
}

TEST_F(Api, AMisalignedWorkspaceIsRefused) {
  const Example e;
  Forward args = e.forward_args();
  const Array<float> workspace(poison(1 << 16));
  args.workspace = workspace.data() + 4;
  expect_refused(e, Error::MISALIGNED, "the workspace is at address",
                 [&] { return forward(e.problem, args); });
}

// 01_naive needs 4 bytes per score: here 4 · 2 · 4 · 5 · (2³¹ − 257) bytes, 320 GiB, for one key
// that is repeated.
TEST_F(Api, AWorkspaceThatDoesNotFitIsRefusedAndForgotten) {
  const Example e;
  Problem p = e.problem;
  p.seq_kv = std::numeric_limits<int>::max() - 256;
  Forward args = e.forward_args();
  args.k.row_stride = args.v.row_stride = 0;
  {
    const MemoryLimit limit(std::size_t{1} << 30);
    expect_refused(e, Error::OUT_OF_MEMORY, "01_naive needs a workspace of 343597342560 bytes",
                   [&] { return forward(p, args, nullptr, "01_naive"); });
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  expect_success(forward(e.problem, e.forward_args()));
}

// ---- Errors ------------------------------------------------------------------------------------

TEST_F(Api, AnErrorLeftByAnEarlierCudaCallIsReportedOnce) {
  const Example e;
  ASSERT_NE(cudaSetDevice(9999), cudaSuccess);
  expect_refused(e, Error::CUDA_ERROR, "an earlier CUDA call of this thread failed: ", [&] {
    return forward(e.problem, e.forward_args());
  });
  expect_success(forward(e.problem, e.forward_args()));
}

// Q's address is far outside all allocations, so the simulator ends the launch.
TEST_F(Api, AStageThatFailsGivesTheRuntimesSentence) {
  if (!simt::kSimulated) GTEST_SKIP() << "A GPU reports it later, and then refuses all work.";
  const Example e;
  Forward args = e.forward_args();
  args.q.data = static_cast<std::byte*>(args.q.data) + (std::size_t{1} << 40);
  EXPECT_EQ(forward(e.problem, args, nullptr, "04_register_tiles"), Error::CUDA_ERROR);
  EXPECT_EQ(last_error_message(), std::string("04_register_tiles, forward pass: ") +
                                      cudaGetErrorString(cudaErrorLaunchFailure));
  EXPECT_EQ(simt::take_findings().size(), 1u);
  expect_success(forward(e.problem, e.forward_args()));
}

TEST_F(Api, EachThreadHasItsOwnMessage) {
  const Example e;
  Problem junk = e.problem;
  junk.batch = 0;
  EXPECT_EQ(forward(junk, e.forward_args()), Error::INVALID_DIMENSION);
  std::thread([] { EXPECT_STREQ(last_error_message(), ""); }).join();
  EXPECT_STREQ(last_error_message(), "batch is 0; it must be at least 1");
  expect_success(forward(e.problem, e.forward_args()));
}

TEST(CurrentDevice, HasTheAttributesThatTheRuntimeStates) {
  const Device& device = current_device();
  if (device.compute_capability == 0) GTEST_SKIP() << device.fault;
  const auto attribute = [](cudaDeviceAttr name) {
    int ordinal = 0, value = 0;
    EXPECT_EQ(cudaGetDevice(&ordinal), cudaSuccess);
    EXPECT_EQ(cudaDeviceGetAttribute(&value, name, ordinal), cudaSuccess);
    return value;
  };
  EXPECT_EQ(device.compute_capability, 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                                           attribute(cudaDevAttrComputeCapabilityMinor));
  EXPECT_EQ(device.sms, attribute(cudaDevAttrMultiProcessorCount));
  EXPECT_GE(device.sms, 1);
  EXPECT_EQ(device.shared_bytes,
            static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)));
}

// The simulator runs code for 9.0 and for exactly 9.0, whatever a library for GPUs is built for.
TEST(CurrentDevice, OfTheSimulatorHasCodeForIt) {
  if (!simt::kSimulated) GTEST_SKIP() << "This library is for GPUs.";
  EXPECT_EQ(current_device().newest_code, 90);
  EXPECT_TRUE(current_device().exact_code);
}

// A machine without a GPU: the arguments are still checked first. The addresses are never read.
TEST(ApiWithoutADevice, RefusesAfterTheArguments) {
  if (current_device().compute_capability != 0) GTEST_SKIP() << "there is a CUDA device";
  const Environment no_stage("CUFLASH_STAGE", nullptr);
  alignas(16) static float memory[64];
  const auto call = [](float scale) {
    return flash_attention_forward(memory, memory, memory, memory + 32, nullptr, 1, 1, 1, 32, scale,
                                   false);
  };
  EXPECT_EQ(call(-1.f), Error::INVALID_SCALE);
  EXPECT_EQ(call(1.f), Error::UNSUPPORTED_DEVICE);
  EXPECT_EQ(last_error_message(),
            std::string("there is no CUDA device: ") + current_device().fault);
}

}  // namespace
}  // namespace cuflash
