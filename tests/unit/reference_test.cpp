// The oracle against numbers worked by hand and finite differences; the plain implementation and
// its rounding against their definitions.
#include "reference/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuflash/workload.h"
#include "reference/plain.h"
#include "reference/round.h"
#include "reference_example.h"

namespace cuflash::reference {
namespace {

const double kLn2 = std::log(2.0), kLn3 = std::log(3.0), kLn4 = std::log(4.0);

// Small problems that cover grouped heads, both aspect ratios with and without mask, rows that see
// no key (more queries than keys), single queries and keys, and windows.
const char* const kExamples[] = {"b1_h1_q3_d2",
                                 "b2_h4x2_q5k7_d4",
                                 "b2_h3x1_q5k7_d4_causal",
                                 "b1_h2_q7k5_d4_causal",
                                 "b1_h4x2_q9k2_d3_causal",
                                 "b1_h1_q1k6_d2_causal",
                                 "b1_h2x1_q6k1_d2_causal",
                                 "b2_h4x2_q5k8_d4_left2_right1",
                                 "b1_h2_q7k5_d3_causal_left1",
                                 "b1_h1_q9k4_d2_right1"};

// ---- By hand -----------------------------------------------------------------------------------

// Two queries, two keys, head_dim 2, scale 1. Q and K are chosen so that
//
//     Q = I,  K = (ln 3, 0; 0, 0)   →   S = Q Kᵀ = (ln 3, 0; 0, 0),   exp S = (3, 1; 1, 1)
//     P = (3/4, 1/4; 1/2, 1/2),     LSE = (ln 4, ln 2)
//     V = (4, 0; 0, 8)              →   O = P V = (3, 2; 2, 4)
//
// and, with dO = I:
//
//     dP = dO Vᵀ = (4, 0; 0, 8),    delta = (3, 4)
//     dS = P ∘ (dP − delta) = (3/4 · 1, 1/4 · −3; 1/2 · −4, 1/2 · 4) = (3/4, −3/4; −2, 2)
//     dV = Pᵀ dO = (3/4, 1/2; 1/4, 1/2)
//     dQ = dS K  = (3/4 ln 3, 0; −2 ln 3, 0)
//     dK = dSᵀ Q = (3/4, −2; −3/4, 2)
struct ByHand {
  Problem problem{1, 1, 1, 2, 2, 2, CUFLASH_F32, false, 1.f};
  Array q{1, 0, 0, 1}, k{kLn3, 0, 0, 0}, v{4, 0, 0, 8}, d_o{1, 0, 0, 1};
};

TEST(Reference, ForwardAgreesWithNumbersByHand) {
  const ByHand e;
  const Output out = attention_forward(e.problem, e.q, e.k, e.v);
  expect_near(out.o, {3, 2, 2, 4}, 1e-15);
  expect_near(out.lse, {kLn4, kLn2}, 1e-15);
}

TEST(Reference, BackwardAgreesWithNumbersByHand) {
  const ByHand e;
  const Output out = attention_forward(e.problem, e.q, e.k, e.v);
  expect_near(attention_delta(e.problem, out.o, e.d_o), {3, 4}, 1e-15);
  const Gradients g = attention_backward(e.problem, e.q, e.k, e.v, out, e.d_o);
  expect_near(g.dq, {0.75 * kLn3, 0, -2 * kLn3, 0}, 1e-14);
  expect_near(g.dk, {0.75, -2, -0.75, 2}, 1e-14);
  expect_near(g.dv, {0.75, 0.5, 0.25, 0.5}, 1e-14);
}

// The same with the mask: query 0 sees key 0 alone, so P_0 = (1, 0) and dS_0 = 0; row 1 is as
// before.
TEST(Reference, CausalAgreesWithNumbersByHand) {
  ByHand e;
  e.problem.causal = true;
  const Output out = attention_forward(e.problem, e.q, e.k, e.v);
  expect_near(out.o, {4, 0, 2, 4}, 1e-15);
  expect_near(out.lse, {kLn3, kLn2}, 1e-15);
  const Gradients g = attention_backward(e.problem, e.q, e.k, e.v, out, e.d_o);
  expect_near(g.dq, {0, 0, -2 * kLn3, 0}, 1e-14);
  expect_near(g.dk, {0, -2, 0, 2}, 1e-14);
  expect_near(g.dv, {1, 0.5, 0, 0.5}, 1e-14);
}

// One key fewer than queries: query 0 sees nothing, query 1 sees the one key.
TEST(Reference, RowsThatSeeNoKeyAreEmpty) {
  const Problem p{1, 1, 1, 2, 1, 2, CUFLASH_F32, true, 1.f};
  const Array q{5, 6, 1, 2}, k{3, 4}, v{7, 8}, d_o{1, 1, 2, 3};
  const Output out = attention_forward(p, q, k, v);
  expect_near(out.o, {0, 0, 7, 8}, 1e-15);
  expect_near(out.lse, {-kInfinity, 1 * 3 + 2 * 4}, 1e-14);
  const Gradients g = attention_backward(p, q, k, v, out, d_o);
  expect_near(g.dq, {0, 0, 0, 0}, 1e-14);
  expect_near(g.dk, {0, 0}, 1e-14);
  expect_near(g.dv, {2, 3}, 1e-14);
}

// ---- Extremes ----------------------------------------------------------------------------------

TEST(Reference, LargeScoresDoNotOverflow) {
  Example e = example("b1_h1_q4k5_d2");
  for (double& x : e.q) x *= 1e6;
  const Output out = attention_forward(e.problem, e.q, e.k, e.v);
  const Gradients g = attention_backward(e.problem, e.q, e.k, e.v, out, e.d_o);
  for (const Array* array : {&out.o, &out.lse, &g.dq, &g.dk, &g.dv}) {
    for (const double x : *array) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(Reference, RefusesArraysOfTheWrongSize) {
  Example e = example("b1_h1_q3_d2");
  e.k.pop_back();
  EXPECT_THROW(attention_forward(e.problem, e.q, e.k, e.v), std::invalid_argument);
}

// ---- Gradients ---------------------------------------------------------------------------------

// Scores that are capped, under a mask of their own: every third diagonal is hidden, and all of row
// 1.
double capped(const Problem&, int i, int j, double s) {
  return (i + j) % 3 == 0 || i == 1 ? kHidden : std::tanh(s);
}
double capped_slope(const Problem&, int, int, double s) { return 1 - std::tanh(s) * std::tanh(s); }
const Score kScores[] = {{}, {capped, capped_slope}};

// The loss Σ O ∘ dO has the gradients that the backward pass computes.
double loss(const Example& e, const Score& score) {
  const Output out = attention_forward(e.problem, e.q, e.k, e.v, score);
  double sum = 0;
  for (std::size_t n = 0; n < out.o.size(); ++n) sum += out.o[n] * e.d_o[n];
  return sum;
}

// Central differences: the truncation error is about step², the rounding error 1e-16 / step.
Array differences(Example e, Array Example::*input, const Score& score) {
  constexpr double kStep = 1e-5;
  Array gradient((e.*input).size());
  for (std::size_t n = 0; n < gradient.size(); ++n) {
    double& x = (e.*input)[n];
    const double middle = x;
    x = middle + kStep;
    const double right = loss(e, score);
    x = middle - kStep;
    const double left = loss(e, score);
    x = middle;
    gradient[n] = (right - left) / (2 * kStep);
  }
  return gradient;
}

TEST(Reference, GradientsAreTheDifferencesOfTheLoss) {
  for (const char* name : kExamples) {
    for (const Score& score : kScores) {
      SCOPED_TRACE(name);
      const Example e = example(name);
      const Output out = attention_forward(e.problem, e.q, e.k, e.v, score);
      const Gradients g = attention_backward(e.problem, e.q, e.k, e.v, out, e.d_o, score);
      expect_near(g.dq, differences(e, &Example::q, score), 1e-8);
      expect_near(g.dk, differences(e, &Example::k, score), 1e-8);
      expect_near(g.dv, differences(e, &Example::v, score), 1e-8);
    }
  }
}

// The score decides, whatever the problem's mask is.
TEST(Reference, AScoreOfItsOwnDecides) {
  Example e = example("b1_h2x1_q4k7_d4_causal");
  const auto last = [](const Problem& p, int, int j, double) {
    return j == p.seq_kv - 1 ? 2. : kHidden;
  };
  const Output out = attention_forward(e.problem, e.q, e.k, e.v, {last});
  for (std::size_t row = 0; row < out.lse.size(); ++row) {
    EXPECT_NEAR(out.lse[row], 2, 1e-15);
    EXPECT_EQ(Array(&out.o[4 * row], &out.o[4 * row] + 4), Array(&e.v[24], &e.v[24] + 4));
  }
  const Output none = attention_forward(e.problem, e.q, e.k, e.v, kScores[1]);
  EXPECT_EQ(none.lse[1], -kInfinity);
  EXPECT_EQ(Array(&none.o[4], &none.o[4] + 4), Array(4));
}

// ---- Samples -----------------------------------------------------------------------------------

TEST(Reference, SamplesComeInTheOrderOfTheirPlaces) {
  const Example e = example("b2_h4x2_q5k7_d4");
  const Output out = attention_forward(e.problem, e.q, e.k, e.v);
  const QuerySample sample =
      attention_queries(e.problem, e.q, e.k, e.v, {}, {{1, 3, 4}, {0, 1, 2}});
  EXPECT_NEAR(sample.lse[0], out.lse[(1 * 4 + 3) * 5 + 4], 1e-14);
  EXPECT_NEAR(sample.lse[1], out.lse[(0 * 4 + 1) * 5 + 2], 1e-14);
  EXPECT_TRUE(sample.dq.empty());
}

// ---- The plain implementation ------------------------------------------------------------------

std::vector<float> floats(const Array& x) { return {x.begin(), x.end()}; }
Array doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

std::vector<float> rounded(const Array& x, Round round) {
  std::vector<float> result = floats(x);
  for (float& value : result) value = round(value);
  return result;
}

TEST(Plain, InFloatAgreesWithTheOracle) {
  for (const char* name : kExamples) {
    for (const Score& score : kScores) {
      SCOPED_TRACE(name);
      const Example e = example(name);
      const auto q = floats(e.q), k = floats(e.k), v = floats(e.v), d_o = floats(e.d_o);
      const PlainOutput out = plain_forward(e.problem, q, k, v, round_f32, score);
      const PlainGradients g = plain_backward(e.problem, q, k, v, out, d_o, round_f32, score);
      const Output exact = attention_forward(e.problem, e.q, e.k, e.v, score);
      const Gradients exact_g = attention_backward(e.problem, e.q, e.k, e.v, exact, e.d_o, score);
      expect_near(doubles(out.o), exact.o, 2e-6);
      expect_near(doubles(out.lse), exact.lse, 2e-6);
      expect_near(doubles(g.dq), exact_g.dq, 1e-5);
      expect_near(doubles(g.dk), exact_g.dk, 1e-5);
      expect_near(doubles(g.dv), exact_g.dv, 1e-5);
    }
  }
}

// The example by hand with dO = 2 I, Q = 4 I and a quarter of K (so that S stays), rounded to
// multiples of 0.4; no tie occurs, and each rounding shows in a product of more than 1:
//
//     P = (3/4, 1/4; 1/2, 1/2) → (0.8, 0.4; 0.4, 0.4),   O = P V = (3.2, 3.2; 1.6, 3.2)
//     dS = (3/2, −3/2; −4, 4)  → (1.6, −1.6; −4, 4), with the exact O = (3, 2; 2, 4) as the input
//     dV = Pᵀ dO = (1.6, 0.8; 0.8, 0.8),   dK = dSᵀ Q = (6.4, −16; −6.4, 16)
//     dQ = dS K = (0.439, 0; −1.099, 0) → (0.4, 0; −1.2, 0)
TEST(Plain, RoundsPAndDSBeforeTheirProductsAndResultsAfter) {
  const ByHand e;
  const Round round = [](float x) { return std::nearbyint(x / 0.4f) * 0.4f; };
  const auto q = floats({4, 0, 0, 4}), k = floats({kLn3 / 4, 0, 0, 0}), v = floats(e.v);
  const PlainOutput out = plain_forward(e.problem, q, k, v, round);
  expect_near(doubles(out.o), {3.2, 3.2, 1.6, 3.2}, 1e-5);
  expect_near(doubles(out.lse), {kLn4, kLn2}, 1e-6);
  const PlainOutput given{{3, 2, 2, 4}, floats({kLn4, kLn2})};
  const PlainGradients g = plain_backward(e.problem, q, k, v, given, {2, 0, 0, 2}, round);
  expect_near(doubles(g.dq), {0.4, 0, -1.2, 0}, 1e-5);
  expect_near(doubles(g.dk), {6.4, -16, -6.4, 16}, 1e-5);
  expect_near(doubles(g.dv), {1.6, 0.8, 0.8, 0.8}, 1e-5);
}

// The error of a 16-bit dtype is about its rounding unit, 2⁻¹¹ or 2⁻⁸, not much more or less.
TEST(Plain, ErrsByTheDTypesRounding) {
  const Example e = example("b1_h2_q40k50_d32_causal");
  for (const DType dtype : {CUFLASH_F16, CUFLASH_BF16}) {
    const double unit = dtype == CUFLASH_F16 ? 0x1p-11 : 0x1p-8;
    const Round round = rounding(dtype);
    const auto q = rounded(e.q, round), k = rounded(e.k, round), v = rounded(e.v, round);
    const PlainOutput out = plain_forward(e.problem, q, k, v, round);
    const Output exact = attention_forward(e.problem, doubles(q), doubles(k), doubles(v));
    double error = 0;
    for (std::size_t n = 0; n < out.o.size(); ++n) {
      EXPECT_EQ(out.o[n], round(out.o[n]));
      error = std::max(error, std::fabs(out.o[n] - exact.o[n]));
    }
    EXPECT_GT(error, unit / 4) << dtype_name(dtype);
    EXPECT_LT(error, unit * 4) << dtype_name(dtype);
  }
}

// ---- Rounding ----------------------------------------------------------------------------------

// The value of a non-negative finite f16 by its definition: 5 bits of exponent, 10 of fraction.
float f16_value(int bits) {
  const int exponent = bits >> 10, fraction = bits & 0x3ff;
  return static_cast<float>(exponent == 0 ? std::ldexp(fraction, -24)
                                          : std::ldexp(1024 + fraction, exponent - 25));
}

// The value of a non-negative finite bf16: the upper half of a float.
float bf16_value(int bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// Every value stays. The middle of two neighbours goes to the even one, other numbers to the nearer
// one. Infinity follows the largest value, as if it were the next one.
void expect_nearest_even(Round round, float (*value)(int), int largest) {
  for (int bits = 0; bits <= largest; ++bits) {
    const double step = double(value(bits)) - value(std::max(bits - 1, 0));
    const double next_value = bits < largest ? value(bits + 1) : value(bits) + step;
    const float next = bits < largest ? value(bits + 1) : std::numeric_limits<float>::infinity();
    const float here = value(bits);
    const auto middle = static_cast<float>((here + next_value) / 2);
    ASSERT_EQ(round(here), here) << bits;
    ASSERT_EQ(round(-here), -here) << bits;
    ASSERT_EQ(round(middle), bits % 2 == 0 ? here : next) << bits;
    ASSERT_EQ(round(-middle), bits % 2 == 0 ? -here : -next) << bits;
    ASSERT_EQ(round(std::nextafter(middle, 0.f)), here) << bits;
    ASSERT_EQ(round(std::nextafter(middle, INFINITY)), next) << bits;
  }
}

TEST(Round, F16IsToNearestEven) { expect_nearest_even(round_f16, f16_value, 0x7bff); }
TEST(Round, BF16IsToNearestEven) { expect_nearest_even(round_bf16, bf16_value, 0x7f7f); }

TEST(Round, KeepsWhatIsNoNumberAndSigns) {
  for (const Round round : {round_f32, round_f16, round_bf16}) {
    EXPECT_TRUE(std::isnan(round(std::nanf(""))));
    EXPECT_EQ(round(INFINITY), INFINITY);
    EXPECT_EQ(round(-INFINITY), -INFINITY);
    EXPECT_TRUE(std::signbit(round(-0.f)));
  }
  EXPECT_TRUE(std::signbit(round_f16(-1e-30f)));
  EXPECT_EQ(round_f16(1e30f), INFINITY);
  EXPECT_EQ(round_f32(0.1f), 0.1f);
}

TEST(Round, IsChosenByDType) {
  EXPECT_EQ(rounding(CUFLASH_F32)(1.f + 0x1p-12f), 1.f + 0x1p-12f);
  EXPECT_EQ(rounding(CUFLASH_F16)(1.f + 0x1p-10f), 1.f + 0x1p-10f);
  EXPECT_EQ(rounding(CUFLASH_BF16)(1.f + 0x1p-10f), 1.f);
}

}  // namespace
}  // namespace cuflash::reference
