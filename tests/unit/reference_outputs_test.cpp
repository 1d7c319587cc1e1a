// The harness's expectations of a stage: the oracle's results for the same problem, and limits.
#include "harness/reference_outputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "harness/convert.h"
#include "harness/test_case.h"
#include "reference/reference.h"

namespace cuflash::harness {
namespace {

TestCase named(const std::string& name) {
  TestCase c;
  EXPECT_TRUE(parse_test_case(name, c)) << name;
  return c;
}

std::map<std::string, ReferenceTensor> tensors(Pass pass, const std::string& name) {
  const TestCase c = named(name);
  std::map<std::string, ReferenceTensor> all;
  for (const ReferenceTensor& tensor : reference_outputs(pass, c.problem, c.source)->tensors) {
    all[tensor.name] = tensor;
  }
  return all;
}

// Asks for results one after the other, as the tests of a stage do: those kept for one problem are
// not returned for another, whatever the difference.
TEST(ReferenceOutputs, AreThoseOfTheWholeProblem) {
  for (const char* name :
       {"b2_h4x2_q9k12_d32_f16", "b2_h4x2_q9k12_d32_f16_causal", "b2_h4x2_q9k12_d32_f16_left2",
        "b2_h4x2_q9k12_d32_f16_right2", "b2_h4x2_q9k12_d32_f16_left2_right2",
        "b2_h4x2_q9k12_d32_f16_causal_left2", "b2_h4x2_q9k12_d32_f16_left2_scale0.5"}) {
    SCOPED_TRACE(name);
    const TestCase c = named(name);
    const Inputs in = make_inputs(c.problem, c.source);
    const auto doubles = [](const std::vector<float>& x) {
      return reference::Array(x.begin(), x.end());
    };
    const auto q = doubles(in.q), k = doubles(in.k), v = doubles(in.v), d_o = doubles(in.d_o);
    const reference::Output out = reference::attention_forward(c.problem, q, k, v);
    const reference::Gradients grads = reference::attention_backward(c.problem, q, k, v, out, d_o);
    auto forward = tensors(CUFLASH_FORWARD, name), backward = tensors(CUFLASH_BACKWARD, name);
    EXPECT_EQ(forward["O"].values, out.o);
    EXPECT_EQ(forward["LSE"].values, out.lse);
    EXPECT_EQ(backward["dQ"].values, grads.dq);
    EXPECT_EQ(backward["dK"].values, grads.dk);
    EXPECT_EQ(backward["dV"].values, grads.dv);
  }
}

TEST(ReferenceOutputs, AWindowIsAMask) {
  EXPECT_EQ(tensors(CUFLASH_FORWARD, "b1_h1_q4k256_d32_f32")["O"].limit, 1e-6);
  for (const char* mask : {"_causal", "_left3", "_right3", "_left300"}) {
    EXPECT_EQ(tensors(CUFLASH_FORWARD, std::string("b1_h1_q4k256_d32_f32") + mask)["O"].limit, 3e-6)
        << mask;
  }
}

// The largest limits, in roundings of the output: as measured, and a third more. A correct stage
// needs one rounding, and the products of rounded weights.
TEST(ReferenceOutputs, LimitsAreTight) {
  const std::map<std::string, double> most = {
      {"O", 7.}, {"LSE", 17.}, {"dQ", 9.}, {"dK", 6.}, {"dV", 6.}};
  for (const char* dtype : {"f16", "bf16"}) {
    const std::string name = std::string("b1_h2_q64k64_d64_") + dtype;
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      for (const auto& [tensor, expected] : tensors(pass, name)) {
        double largest = 0.;
        for (const double x : expected.values) largest = std::max(largest, std::abs(x));
        const DType type = tensor == "LSE" ? CUFLASH_F32 : named(name).problem.dtype;
        const double roundings = expected.limit / half_ulp(type, largest);
        EXPECT_LT(roundings, most.at(tensor)) << name << ", " << tensor;
        EXPECT_GT(roundings, 1.) << name << ", " << tensor;
      }
    }
  }
  EXPECT_EQ(tensors(CUFLASH_FORWARD, "b1_h1_q4k255_d32_f32")["O"].limit, 3e-6);
  for (const auto& [tensor, expected] : tensors(CUFLASH_BACKWARD, "b1_h2_q64k64_d64_f32")) {
    double largest = 0.;
    for (const double x : expected.values) largest = std::max(largest, std::abs(x));
    EXPECT_NEAR(expected.limit, 1.5e-5 * largest, 0.5e-5 * largest) << tensor;
  }
}

// Where scores overflow in f32 the plain implementation computes inf − inf.
TEST(ReferenceOutputs, ThereIsNoLimitWhereThePlainImplementationHasNone) {
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    for (const auto& [name, tensor] : tensors(pass, "b1_h1_q4k4_d32_f16_scale1e38")) {
      EXPECT_FALSE(std::isfinite(tensor.limit)) << name << ": " << tensor.limit;
    }
  }
}

// In a window of one key each query that has a key gives it the weight 1, however many queries have
// none. All elements are 0.5, so |q| |k| is 8 and |V|, |dO| are 0.5. The limit is then the rounding
// of dot products, for the weight 1, and half a unit in the last place of 0.5.
TEST(ReferenceOutputs, AKeyWeighsWhatItsQueriesGiveIt) {
  const double rounding = 0x1p-23 * default_scale(32) * 8 * 0.5;
  for (const char* name :
       {"b1_h1_q8k8_d32_f32_left0_right0_allequal", "b1_h1_q80k8_d32_f32_left0_right0_allequal"}) {
    EXPECT_NEAR(tensors(CUFLASH_BACKWARD, name)["dV"].limit, rounding + half_ulp(CUFLASH_F32, 0.5),
                1e-12)
        << name;
  }
}

}  // namespace
}  // namespace cuflash::harness
