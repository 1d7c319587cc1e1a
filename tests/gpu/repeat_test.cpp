// The same call, ten thousand times: the same bits. What goes wrong only if one warp happens to
// come before another goes wrong in some of them.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "differences.h"
#include "harness/reference_outputs.h"
#include "support/api_call.h"
#include "support/expect.h"
#include "support/need_device.h"

namespace cuflash {
namespace {

using harness::check;
using harness::DeviceBuffer;

constexpr int kCalls = 10'000;

// More tiles of queries than a GPU has multiprocessors, several tiles of keys, tails in both.
constexpr const char* kProblems[] = {"b3_h16x4_q400k500_d64_f16_causal", "b3_h16_q400k500_d128_f16",
                                     "b3_h16x2_q400k400_d128_bf16_causal"};

// An output and a copy of what the first call left there.
struct Kept {
  std::byte* data;
  DeviceBuffer copy;
};

void repeats(const char* stage, const ApiCall& call) {
  SCOPED_TRACE(shown(stage));
  const Problem& p = call.problem();
  const std::size_t rows = std::size_t(p.batch) * p.heads_q * p.seq_q;
  const std::size_t kv_rows = std::size_t(p.batch) * p.heads_kv * p.seq_kv;
  const std::size_t row = p.head_dim * element_bytes(p.dtype);
  const std::map<std::string, std::size_t> bytes = {{"O", rows * row},
                                                    {"LSE", rows * sizeof(float)},
                                                    {"dQ", rows * row},
                                                    {"dK", kv_rows * row},
                                                    {"dV", kv_rows * row}};
  const harness::Stream stream;
  const DeviceBuffer count(sizeof(unsigned));
  check(cudaMemsetAsync(count.data(), 0, count.bytes(), stream.get()), "cudaMemset");
  expect_success(call.queue(stream.get(), stage));
  std::vector<Kept> outputs;
  for (const std::string& name : call.output_names()) {
    outputs.push_back(
        {static_cast<std::byte*>(call.view(name).data), DeviceBuffer(bytes.at(name))});
    const Kept& kept = outputs.back();
    check(cudaMemcpyAsync(kept.copy.data(), kept.data, kept.copy.bytes(), cudaMemcpyDeviceToDevice,
                          stream.get()),
          "cudaMemcpy");
  }
  for (int n = 1; n < kCalls; ++n) {
    for (const Kept& kept : outputs) {
      check(cudaMemsetAsync(kept.data, 0xff, kept.copy.bytes(), stream.get()), "cudaMemset");
    }
    ASSERT_EQ(call.queue(stream.get(), stage), FlashAttentionError::SUCCESS);
    for (const Kept& kept : outputs) {
      count_differences(kept.data, kept.copy.data(), kept.copy.bytes(),
                        reinterpret_cast<unsigned*>(count.data()), stream.get());
    }
  }
  unsigned differences = 0;
  stream.synchronize();
  check(cudaMemcpy(&differences, count.data(), sizeof differences, cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  EXPECT_EQ(differences, 0u);
}

// The stages from compute capability 9.0 on, whose warps wait for each other at mbarriers. A
// backward pass is called with `deterministic`.
class Repeats : public testing::TestWithParam<Pass> {
 protected:
  void SetUp() override { need_device(); }
};

TEST_P(Repeats, GiveTheSameBits) {
  const Pass pass = GetParam();
  int tried = 0;
  for (const char* name : kProblems) {
    SCOPED_TRACE(name);
    const Problem problem = problem_of(name);
    const auto expected = harness::reference_outputs(pass, problem, {});
    const ApiCall call(pass, problem, expected->inputs);
    for (const Stage* stage : stages()) {
      if (stage->facts(pass).arch.compute_capability < 90) continue;
      if (!supports(*stage, pass, problem, current_device())) continue;
      ++tried;
      repeats(stage->name, call);
      expect_right(call.outputs(), *expected);
    }
  }
  if (tried == 0) GTEST_SKIP() << "No stage for compute capability 9.0 runs here.";
}

INSTANTIATE_TEST_SUITE_P(Passes, Repeats, testing::Values(CUFLASH_FORWARD, CUFLASH_BACKWARD),
                         [](const auto& info) { return std::string(pass_name(info.param)); });

}  // namespace
}  // namespace cuflash
