// The largest V that problem.h allows, with the worst weights: O must stay finite.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "support/api_call.h"
#include "support/api_example.h"
#include "support/expect.h"

namespace cuflash {
namespace {

// Every V is `value`. The first key has the weight 1, before the softmax divides by their sum, and
// the others have `weight`.
void expect_finite(const std::string& name, float value, double weight) {
  Problem p = problem_of(name);
  p.softmax_scale = static_cast<float>(-std::log(weight));
  harness::Inputs inputs = zeros(p);
  for (int i = 0; i < p.seq_q; ++i) inputs.q[i * p.head_dim] = 1.f;
  for (int j = 1; j < p.seq_kv; ++j) inputs.k[j * p.head_dim] = -1.f;
  inputs.v.assign(inputs.v.size(), value);
  const ApiCall call(CUFLASH_FORWARD, p, inputs);
  for (const char* stage : ways_to_run(CUFLASH_FORWARD, p)) {
    SCOPED_TRACE(shown(stage));
    expect_success(call.queue(nullptr, stage));
    const harness::Outputs outputs = call.outputs();
    for (const float o : outputs.tensors.at("O")) {
      ASSERT_NEAR(o, value, 0.01f * value) << name << ", weight " << weight;
    }
    call.poison();
  }
}

class LargestValues : public Api {};

// The largest V in f16 for `keys` keys, by problem.h's formula. Neighbours are 32 apart there.
float largest_half(int keys) {
  const double factor = 1 + std::ldexp(1, -11) + std::ldexp(keys, -23);
  return 32.f * static_cast<float>(std::floor(65520 / factor / 32));
}

// f16 rounds up a weight just above a tie between two numbers, and floats add up weights far below
// the largest with the largest errors.
TEST_F(LargestValues, InHalf) {
  EXPECT_EQ(largest_half(4096), 65440.f);
  const double above_tie = 1 + std::ldexp(1, -11) + std::ldexp(1, -14);
  for (const int keys : {2, 100, 4096}) {
    const std::string name = "b1_h1_q1k" + std::to_string(keys) + "_d32_f16";
    for (const double weight : {0.5 * above_tie, std::ldexp(1.01, -25)}) {
      expect_finite(name, largest_half(keys), weight);
    }
  }
}

// The sum of the products, before it is divided, is seq_kv times as large.
TEST_F(LargestValues, InFloatAndBfloat16) {
  expect_finite("b1_h1_q1k100_d64_f32", 3.4e36f, 1 - 1e-6);
  expect_finite("b1_h1_q1k100_d64_bf16", 3.39e36f, 0.999);  // bf16 rounds 3.4e36 up
}

}  // namespace
}  // namespace cuflash
