// Cases: a test's name is parsed to the same case, and junk is refused.
#include "harness/test_case.h"

#include <gtest/gtest.h>

namespace cuflash::harness {
namespace {

TEST(CaseName, ComesBack) {
  for (const char* name :
       {"b1_h2_q64k64_d64_f16", "b2_h4x1_q77k131_d64_f32_causal", "b1_h2_q50k70_d64_f32_peaky",
        "b2_h2_q33k47_d64_f16_bshd", "b1_h2_q90k90_d32_f16_causal_real",
        "b1_h1_q5k5_d64_f32_scale0.1_peaky_bshd", "b2_h4x2_q33k47_d32_bf16_largeq_far",
        "b1_h1_q5k5_d32_f32_onehot_padded_no_lse_no_dq_no_dk_no_dv",
        "b1_h2_q64k64_d64_f16_causal_left20", "b1_h2_q64k64_d64_f16_left0_right0_scale0.1_padded",
        "b2_h2_q8k8_d64_f16_sharedkv_expanded", "b2_h1_q8k9_d64_f16_spaced",
        "b1_h1_q5k5_d64_f16_peaky_padded_no_dv_any_order"}) {
    TestCase c;
    ASSERT_TRUE(parse_test_case(name, c)) << name;
    EXPECT_EQ(test_case_name(c), name);
  }
}

TEST(CaseName, SaysAll) {
  TestCase c;
  ASSERT_TRUE(parse_test_case("b1_h2_q40k70_d64_f32_causal_allequal_padded_no_dk", c));
  EXPECT_EQ(c.problem.seq_kv, 70);
  EXPECT_EQ(c.problem.dtype, CUFLASH_F32);
  EXPECT_TRUE(c.problem.causal);
  EXPECT_EQ(c.source.kind, InputKind::kAllEqual);
  EXPECT_EQ(c.options.layout, Layout::kPadded);
  EXPECT_TRUE(c.options.dq);
  EXPECT_FALSE(c.options.dk);
  EXPECT_TRUE(c.options.deterministic);
  ASSERT_TRUE(parse_test_case("b1_h2_q40k70_d64_f32_any_order", c));
  EXPECT_FALSE(c.options.deterministic);
  ASSERT_TRUE(parse_test_case("b1_h1_q8k8_d32_scale0.3", c));
  EXPECT_EQ(c.problem.softmax_scale, 0.3f);
}

TEST(CaseName, KeepsWhatANameLeavesOut) {
  TestCase c;
  c.problem.dtype = CUFLASH_BF16;
  c.source.kind = InputKind::kPeaky;
  ASSERT_TRUE(parse_test_case("b1_h1_q8k8_d32_padded", c));
  EXPECT_EQ(test_case_name(c), "b1_h1_q8k8_d32_bf16_peaky_padded");
}

TEST(CaseName, RefusesJunk) {
  for (const char* name :
       {"", "_peaky", "b1_h1_q8k8_d32_", "b1_h1_q8k8_d32_padded_peaky",
        "b1_h1_q8k8_d32_peaky_peaky", "b1_h1_q8k8_d32_scale", "b1_h1_q8k8_d32_scale-1",
        "b1_h1_q8k8_d32_scale0", "b1_h1_q8k8_d32_scale0.1x", "b1_h1_q8k8_d32_scaleinf",
        "b1_h1_q8k8_d32_padded_left1", "b1_h1_q8k8_d32_f16_other",
        "b1_h1_q8k8_d32_any_order_no_dk"}) {
    TestCase c;
    EXPECT_FALSE(parse_test_case(name, c)) << name;
    EXPECT_EQ(test_case_name(c), test_case_name({})) << name;
  }
}

}  // namespace
}  // namespace cuflash::harness
