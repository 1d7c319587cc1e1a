// Problems: their names go out and come back, junk is refused, and their costs are the field's.
#include "cuflash/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>

namespace cuflash {
namespace {

constexpr DType kDTypes[] = {CUFLASH_F32, CUFLASH_F16, CUFLASH_BF16};

Problem named(const std::string& text) {
  Problem p;
  EXPECT_TRUE(parse_problem(text, p)) << text;
  return p;
}

auto fields(const Problem& p) {
  return std::make_tuple(p.batch, p.heads_q, p.heads_kv, p.seq_q, p.seq_kv, p.head_dim, p.dtype,
                         p.causal, p.softmax_scale);
}

TEST(ProblemName, IsTheOneInTheDesign) {
  const Problem p{2, 4, 1, 77, 131, 64, CUFLASH_F16, true, 0.125f};
  EXPECT_EQ(problem_name(p), "b2_h4x1_q77k131_d64_f16_causal");
}

TEST(ProblemName, LeavesOutWhatGoesWithoutSaying) {
  const Problem p{1, 12, 12, 64, 64, 32, CUFLASH_F32, false, 1.f};
  EXPECT_EQ(problem_name(p), "b1_h12_q64k64_d32_f32");
}

TEST(ProblemName, ComesBack) {
  for (const DType dtype : kDTypes) {
    for (const bool causal : {false, true}) {
      for (const int heads_kv : {1, 4}) {
        const Problem p{3, 4, heads_kv, 1, 2147483647, 128, dtype, causal, default_scale(128)};
        EXPECT_EQ(fields(named(problem_name(p))), fields(p)) << problem_name(p);
      }
    }
  }
}

TEST(ParseProblem, AcceptsShortForms) {
  EXPECT_EQ(problem_name(named("b1_h12_q256_d32")), "b1_h12_q256k256_d32_f16");
  EXPECT_EQ(problem_name(named("b1_h4x4_q8k9_d64_causal")), "b1_h4_q8k9_d64_f16_causal");
}

TEST(ParseProblem, KeepsWhatTheTextLeavesOutAndSetsTheScale) {
  Problem p;
  p.dtype = CUFLASH_BF16;
  p.causal = true;
  ASSERT_TRUE(parse_problem("b1_h1_q8_d32", p));
  EXPECT_EQ(p.dtype, CUFLASH_BF16);
  EXPECT_TRUE(p.causal);
  EXPECT_FLOAT_EQ(p.softmax_scale, 1.f / std::sqrt(32.f));
}

TEST(ParseProblem, RefusesJunkAndChangesNothing) {
  const Problem before{2, 6, 3, 5, 7, 32, CUFLASH_BF16, true, 0.5f};
  for (const char* junk : {"",
                           "b",
                           "b1",
                           "b1_h1",
                           "b1_h1_q8",
                           "b1_h1_q8_d",
                           "h1_q8_d64",
                           "b1h1_q8_d64",
                           "b0_h1_q8_d64",
                           "b-1_h1_q8_d64",
                           "b+1_h1_q8_d64",
                           "b01_h1_q8_d64",
                           "b1.5_h1_q8_d64",
                           "b1_h_q8_d64",
                           "b1_h4x_q8_d64",
                           "b1_h4x0_q8_d64",
                           "b1_hx4_q8_d64",
                           "b1_h1_q8k_d64",
                           "b1_h1_q8k0_d64",
                           "b1_h1_k8_d64",
                           "b1_h1_q2147483648_d64",
                           "b1_h1_q8_d64_f64",
                           "b1_h1_q8_d64_f16_f16",
                           "b1_h1_q8_d64_causal_f16",
                           "b1_h1_q8_d64_causal_causal",
                           "b1_h1_q8_d64_",
                           "b1_h1_q8_d64 ",
                           " b1_h1_q8_d64",
                           "B1_h1_q8_d64",
                           "b1_h1_q8_d64_F16",
                           "b1_h1_q8_d64f16",
                           "b1_h1_q8_d64_causal2"}) {
    Problem p = before;
    EXPECT_FALSE(parse_problem(junk, p)) << '"' << junk << '"';
    EXPECT_EQ(fields(p), fields(before)) << '"' << junk << '"';
  }
}

TEST(DTypeName, ComesBack) {
  for (const DType dtype : kDTypes) {
    DType parsed = dtype == CUFLASH_F32 ? CUFLASH_F16 : CUFLASH_F32;
    EXPECT_TRUE(parse_dtype(dtype_name(dtype), parsed));
    EXPECT_EQ(parsed, dtype);
  }
}

TEST(DTypeName, JunkIsRefused) {
  DType dtype = CUFLASH_BF16;
  for (const char* junk : {"", "f", "f64", "fp16", "F16", "f16 ", "bf", "unknown"}) {
    EXPECT_FALSE(parse_dtype(junk, dtype)) << junk;
  }
  EXPECT_EQ(dtype, CUFLASH_BF16);
}

TEST(PassName, IsAWord) {
  EXPECT_STREQ(pass_name(CUFLASH_FORWARD), "forward");
  EXPECT_STREQ(pass_name(CUFLASH_BACKWARD), "backward");
}

TEST(Contiguous, HasNoGaps) {
  int data = 0;
  const Tensor t = contiguous(&data, 3, 5, 64);
  EXPECT_EQ(t.data, &data);
  EXPECT_EQ(t.row_stride, 64);
  EXPECT_EQ(t.head_stride, 5 * 64);
  EXPECT_EQ(t.batch_stride, 3 * 5 * 64);
}

TEST(Contiguous, PassesThirtyTwoBits) {
  EXPECT_EQ(contiguous(nullptr, 64, 1 << 20, 128).batch_stride, std::int64_t{1} << 33);
}

TEST(Contiguous, StaysAMultipleOfSixteenBytesWhenItPassesSixtyFourBits) {
  constexpr int kMax = std::numeric_limits<int>::max();
  const Tensor t = contiguous(nullptr, kMax, kMax, kMax);
  EXPECT_GT(t.batch_stride, std::numeric_limits<std::int64_t>::max() - 16);
  EXPECT_EQ(t.batch_stride % 16, 0);
}

// 4 · B · Hq · Sq · Skv · D = 4 · 2 · 3 · 5 · 7 · 32 = 26,880.
TEST(AttentionFlops, FollowTheConvention) {
  Problem p{2, 3, 1, 5, 7, 32, CUFLASH_F16, false, 1.f};
  EXPECT_EQ(attention_flops(CUFLASH_FORWARD, p), 26880.);
  EXPECT_EQ(attention_flops(CUFLASH_BACKWARD, p), 67200.);
  p.causal = true;
  EXPECT_EQ(attention_flops(CUFLASH_FORWARD, p), 13440.);
  EXPECT_EQ(attention_flops(CUFLASH_BACKWARD, p), 33600.);
}

// Q: 2 · 3 · 5 rows, K: 2 · 1 · 7 rows, 32 elements of 2 bytes each; LSE 30 floats. Forward moves
// Q, K, V, O; backward Q, K, V, O, dO, dQ, dK, dV.
TEST(CompulsoryBytes, CountEachTensorOnce) {
  const Problem p{2, 3, 1, 5, 7, 32, CUFLASH_F16, false, 1.f};
  EXPECT_EQ(compulsory_bytes(CUFLASH_FORWARD, p), (2 * 30 + 2 * 14) * 64 + 120);
  EXPECT_EQ(compulsory_bytes(CUFLASH_BACKWARD, p), (4 * 30 + 4 * 14) * 64 + 120);
}

TEST(CompulsoryBytes, DoNotOverflow) {
  const Problem p{1 << 10, 1 << 10, 1, 1 << 20, 1, 128, CUFLASH_F32, false, 1.f};
  EXPECT_GT(compulsory_bytes(CUFLASH_FORWARD, p), 1e15);
}

}  // namespace
}  // namespace cuflash
