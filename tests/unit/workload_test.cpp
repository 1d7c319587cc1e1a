// Problems: names are written and parsed, junk is refused, and costs follow the usual convention.
#include "cuflash/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

namespace cuflash {
namespace {

Problem named(const std::string& text) {
  Problem p;
  EXPECT_TRUE(parse_problem(text, p)) << text;
  return p;
}

auto fields(const Problem& p) {
  return std::make_tuple(p.batch, p.heads_q, p.heads_kv, p.seq_q, p.seq_kv, p.head_dim, p.dtype,
                         p.causal, p.softmax_scale, p.window_left, p.window_right, p.split_keys,
                         p.num_splits, p.page_size, p.num_pages, p.pages_per_seq);
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

TEST(ProblemName, HasTheSidesOfTheWindow) {
  Problem p{1, 2, 2, 77, 131, 64, CUFLASH_F16, false, 0.125f};
  p.window_left = 16, p.window_right = 3;
  EXPECT_EQ(problem_name(p), "b1_h2_q77k131_d64_f16_left16_right3");
  p.window_left = -1;
  EXPECT_EQ(problem_name(p), "b1_h2_q77k131_d64_f16_right3");
  p.window_left = 0, p.window_right = -1, p.causal = true;
  EXPECT_EQ(problem_name(p), "b1_h2_q77k131_d64_f16_causal_left0");
  p.window_left = p.window_right = -5;
  EXPECT_EQ(problem_name(p), "b1_h2_q77k131_d64_f16_causal");
}

TEST(ProblemName, ComesBackWithItsWindow) {
  for (const bool causal : {false, true}) {
    for (const int left : {-1, 0, 1, 10, 2147483647}) {
      for (const int right : {-1, 0, 20, 2147483647}) {
        Problem p{1, 1, 1, 8, 9, 64, CUFLASH_F16, causal, default_scale(64)};
        p.window_left = left, p.window_right = right;
        EXPECT_EQ(fields(named(problem_name(p))), fields(p)) << problem_name(p);
      }
    }
  }
}

// Both may be in a name, although a call refuses a problem with both.
TEST(ProblemName, HasThePartsOfTheKeysAndComesBackWithThem) {
  Problem p{1, 2, 2, 1, 131, 64, CUFLASH_F16, true, default_scale(64)};
  p.window_left = 9, p.split_keys = 512;
  EXPECT_EQ(problem_name(p), "b1_h2_q1k131_d64_f16_causal_left9_split512");
  EXPECT_EQ(fields(named(problem_name(p))), fields(p));
  p.num_splits = 4;
  EXPECT_EQ(problem_name(p), "b1_h2_q1k131_d64_f16_causal_left9_split512_parts4");
  EXPECT_EQ(fields(named(problem_name(p))), fields(p));
  p.window_left = -1, p.split_keys = 0, p.causal = false;
  EXPECT_EQ(problem_name(p), "b1_h2_q1k131_d64_f16_parts4");
  EXPECT_EQ(fields(named(problem_name(p))), fields(p));
}

// Three pages more than the sequences have together.
TEST(ProblemName, HasThePagesAndComesBackWithThem) {
  Problem p{2, 4, 1, 1, 131, 64, CUFLASH_F16, false, default_scale(64)};
  p.num_splits = 4;
  p = in_pages(p, 16);
  EXPECT_EQ(problem_name(p), "b2_h4x1_q1k131_d64_f16_parts4_page16");
  EXPECT_EQ(p.pages_per_seq, 9);
  EXPECT_EQ(p.num_pages, 2 * 9 + 3);
  EXPECT_EQ(fields(named(problem_name(p))), fields(p));
}

TEST(InPages, CountsTheLastPageWhole) {
  for (const auto& [keys, pages] : {std::pair(1, 1), std::pair(32, 1), std::pair(33, 2),
                                    std::pair(std::numeric_limits<int>::max(), 1 << 26)}) {
    Problem p;
    p.seq_kv = keys;
    EXPECT_EQ(in_pages(p, 32).pages_per_seq, pages) << keys << " keys";
  }
}

TEST(InPages, TakesThePagesAway) {
  const Problem p{2, 4, 1, 1, 131, 64, CUFLASH_F16, false, default_scale(64)};
  EXPECT_EQ(fields(in_pages(in_pages(p, 16), 0)), fields(p));
}

TEST(ParseProblem, AcceptsShortForms) {
  EXPECT_EQ(problem_name(named("b1_h12_q256_d32")), "b1_h12_q256k256_d32_f16");
  EXPECT_EQ(problem_name(named("b1_h4x4_q8k9_d64_causal")), "b1_h4_q8k9_d64_f16_causal");
}

TEST(ParseProblem, KeepsWhatTheTextLeavesOutAndSetsTheScale) {
  Problem p;
  p.dtype = CUFLASH_BF16;
  p.causal = true;
  p.window_left = 5, p.window_right = 6;
  ASSERT_TRUE(parse_problem("b1_h1_q8_d32_right2", p));
  EXPECT_EQ(p.dtype, CUFLASH_BF16);
  EXPECT_TRUE(p.causal);
  EXPECT_EQ(p.window_left, 5);
  EXPECT_EQ(p.window_right, 2);
  EXPECT_FLOAT_EQ(p.softmax_scale, 1.f / std::sqrt(32.f));
}

TEST(ParseProblem, RefusesJunkAndChangesNothing) {
  Problem before{2, 6, 3, 5, 7, 32, CUFLASH_BF16, true, 0.5f};
  before.window_left = 1, before.window_right = 2;
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
                           "b1_h1_q8_d64_causal2",
                           "b1_h1_q8_d64_left",
                           "b1_h1_q8_d64_left-1",
                           "b1_h1_q8_d64_left+1",
                           "b1_h1_q8_d64_left01",
                           "b1_h1_q8_d64_left00",
                           "b1_h1_q8_d64_left2147483648",
                           "b1_h1_q8_d64_left1.5",
                           "b1_h1_q8_d64_left_right1",
                           "b1_h1_q8_d64_right",
                           "b1_h1_q8_d64_right-1",
                           "b1_h1_q8_d64_right007",
                           "b1_h1_q8_d64_right99999999999",
                           "b1_h1_q8_d64_right1_left1",
                           "b1_h1_q8_d64_left1_left1",
                           "b1_h1_q8_d64_left1_causal",
                           "b1_h1_q8_d64_left1_f16",
                           "b1_h1_q8_d64_left1right1",
                           "b1_h1_q8_d64_left1_",
                           "b1_h1_q8_d64_split",
                           "b1_h1_q8_d64_split0",
                           "b1_h1_q8_d64_split-64",
                           "b1_h1_q8_d64_parts04",
                           "b1_h1_q8_d64_parts4_split64",
                           "b1_h1_q8_d64_split64_left1",
                           "b1_h1_q8_d64_page",
                           "b1_h1_q8_d64_page0",
                           "b1_h1_q8_d64_page-16",
                           "b1_h1_q8_d64_page016",
                           "b1_h1_q8_d64_page16_page16",
                           "b1_h1_q8_d64_page16_parts4"}) {
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

// The pairs that the mask lets through, counted one by one.
double counted_pairs(const Problem& p) {
  double pairs = 0;
  for (int i = 0; i < p.seq_q; ++i) {
    for (int j = 0; j < p.seq_kv; ++j) {
      const int distance = j - (i + p.seq_kv - p.seq_q);
      const bool hidden = (p.window_left >= 0 && distance < -p.window_left) ||
                          (p.window_right >= 0 && distance > p.window_right) ||
                          (p.causal && distance > 0);
      pairs += hidden ? 0 : 1;
    }
  }
  return pairs;
}

TEST(AttentionFlops, CountThePairsOfAWindow) {
  for (const char* lengths : {"q9k9", "q5k12", "q12k5", "q1k8", "q8k1"}) {
    for (const char* mask : {"_left0_right0", "_left3", "_right2", "_left2_right4", "_causal_left3",
                             "_causal_right4", "_left40", "_right2147483647", "_left2147483647"}) {
      const Problem p = named("b2_h3x1_" + std::string(lengths) + "_d32" + mask);
      const double forward = 4. * 2 * 3 * 32 * counted_pairs(p);
      EXPECT_EQ(attention_flops(CUFLASH_FORWARD, p), forward) << problem_name(p);
      EXPECT_EQ(attention_flops(CUFLASH_BACKWARD, p), 2.5 * forward) << problem_name(p);
    }
  }
}

// One key for each of 2^31 − 1 queries.
TEST(AttentionFlops, OfAWindowDoNotOverflow) {
  const Problem p = named("b1_h1_q2147483647_d64_left0_right0");
  EXPECT_EQ(attention_flops(CUFLASH_FORWARD, p), 4. * 64 * 2147483647.);
}

// Q: 2 · 3 · 5 rows, K: 2 · 1 · 7 rows, 32 elements of 2 bytes each; LSE 30 floats. Forward moves
// Q, K, V, O; backward Q, K, V, O, dO, dQ, dK, dV.
TEST(CompulsoryBytes, CountEachTensorOnce) {
  const Problem p{2, 3, 1, 5, 7, 32, CUFLASH_F16, false, 1.f};
  EXPECT_EQ(compulsory_bytes(CUFLASH_FORWARD, p), (2 * 30 + 2 * 14) * 64 + 120);
  EXPECT_EQ(compulsory_bytes(CUFLASH_BACKWARD, p), (4 * 30 + 4 * 14) * 64 + 120);
}

TEST(CompulsoryBytes, DoNotDependOnTheMask) {
  const Problem p = named("b1_h2_q64k128_d64_causal_left4");
  const Problem without = named("b1_h2_q64k128_d64");
  EXPECT_EQ(compulsory_bytes(CUFLASH_FORWARD, p), compulsory_bytes(CUFLASH_FORWARD, without));
}

TEST(CompulsoryBytes, DoNotOverflow) {
  const Problem p{1 << 10, 1 << 10, 1, 1 << 20, 1, 128, CUFLASH_F32, false, 1.f};
  EXPECT_GT(compulsory_bytes(CUFLASH_FORWARD, p), 1e15);
}

// A view of a longer text: nothing after the view's end is read.
TEST(Workload, AViewEndsWhereItEnds) {
  const std::string_view longer = "b1_h2_q77k131_d645";
  Problem p;
  ASSERT_TRUE(parse_problem(longer.substr(0, longer.size() - 1), p));
  EXPECT_EQ(p.head_dim, 64);
}

}  // namespace
}  // namespace cuflash
