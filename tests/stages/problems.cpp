#include "problems.h"

#include <stdexcept>

namespace cuflash::tests {
namespace {

struct Row {
  const char* intent;
  const char* name;  // without a dtype: one case for each
};

// The lengths are chosen to find bugs: a tile has 32 to 128 rows, so there are problems of less
// than one tile, of whole tiles, and of whole tiles and a few rows.
constexpr Row kRows[] = {
    {"regular", "b1_h2_q64k64_d64"},
    {"regular", "b1_h2_q64k64_d64_causal"},
    {"regular", "b2_h2_q64k64_d32_f16"},
    {"regular", "b1_h1_q64k64_d128"},
    {"regular", "b1_h1_q64k64_d128_causal"},
    {"regular", "b1_h1_q128k256_d32_f16"},
    {"regular", "b1_h1_q128k128_d64_bf16_causal"},

    {"ragged: one element", "b1_h1_q1k1_d64"},
    {"ragged: one query", "b2_h2_q1k77_d64_causal"},
    {"ragged: one key", "b1_h2_q77k1_d32_f16"},
    {"ragged: less than a tile", "b1_h2_q17k17_d64_causal"},
    {"ragged: a tile and one", "b1_h1_q65k65_d64_f16_causal"},
    {"ragged: a tile and one", "b1_h1_q33k129_d32_bf16"},
    {"ragged: one short of a tile", "b1_h1_q63k127_d32_f16"},
    {"ragged: odd lengths", "b1_h1_q113k203_d64_f16_causal"},
    {"ragged: odd lengths", "b1_h1_q113k203_d128_bf16"},

    {"many tiles: a ring of two buffers is filled three times", "b1_h1_q20k330_d64_f16"},
    {"many tiles: a ring of two buffers is filled three times", "b1_h1_q20k650_d128_f16_causal"},
    {"seq_q < seq_kv", "b1_h2_q33k97_d64_causal"},
    {"seq_q < seq_kv", "b1_h1_q16k200_d32_f16"},
    {"seq_q > seq_kv", "b1_h1_q100k48_d64_f16"},

    {"grouped heads", "b2_h4x1_q37k71_d32_causal"},
    {"grouped heads", "b1_h6x2_q40k40_d64_f16"},
    {"grouped heads", "b1_h4x2_q37k71_d128_f32_causal"},

    {"other head dimensions", "b1_h1_q64k64_d96_f16"},
    {"other head dimensions", "b1_h2_q130k150_d96_bf16_causal"},
    {"other head dimensions", "b1_h4x2_q37k71_d96_f16_left12_padded"},
    {"other head dimensions", "b1_h1_q64k64_d256_bf16"},
    {"other head dimensions", "b1_h2_q70k200_d256_f16_causal"},
    {"other head dimensions", "b1_h4x2_q37k71_d256_f16_left12_padded"},
    {"many keys: a block computes three tiles of them", "b1_h1_q32k3072_d256_f16"},

    {"parts of the keys", "b1_h2_q1k700_d64_f16"},
    {"parts of the keys", "b2_h8x2_q1k500_d128_f16"},
    {"parts of the keys: at multiples of 128", "b1_h4x2_q3k700_d64_f16_causal_split128"},
    {"parts of the keys: at multiples of 64, a window", "b2_h2_q3k500_d128_bf16_left150_split64"},
    {"parts of the keys: more than tiles", "b1_h4x1_q5k200_d96_f16_causal_parts7"},
    {"parts of the keys: three", "b1_h4x1_q1k300_d256_bf16_parts3"},
    {"parts of the keys: one", "b1_h2_q5k200_d32_f16_parts1"},
    {"parts of the keys: scores up to 2e5", "b1_h4_q4k500_d64_f16_parts4_scale50_largeq"},

    {"pages", "b2_h4x2_q33k47_d64_f16_causal_page16"},
    {"pages", "b2_h2_q3k500_d128_bf16_left150_split64_page32_padded"},
    {"pages", "b1_h4x1_q5k200_d96_f16_causal_parts7_page48_bshd"},
    {"pages", "b2_h8x2_q1k300_d256_f16_page128"},
    {"pages", "b2_h8x2_q70k90_d32_bf16_left20_page16"},

    {"strided", "b2_h2_q33k47_d64_f16_bshd"},
    {"strided", "b2_h4x2_q33k47_d32_causal_padded"},
    {"strided", "b2_h4x2_q33k47_d64_f16_padded"},
    {"strided", "b1_h2_q21k30_d128_bf16_padded"},
    {"strided: NaN after every head", "b2_h4x2_q33k47_d64_spaced"},
    {"strided: NaN after every head", "b2_h2_q70k130_d128_f16_causal_spaced"},
    {"strided: NaN after every head", "b1_h2_q70k70_d96_bf16_left20_spaced"},
    {"strided: K and V stored once", "b2_h4x2_q33k47_d64_sharedkv_expanded"},
    {"strided: K and V stored once", "b2_h2_q70k80_d128_bf16_causal_sharedkv_expanded"},

    // The query's own key counts: left 31 and causal are 32 keys.
    {"window: causal and sliding", "b1_h2_q100k100_d64_causal_left20"},
    {"window: two-sided", "b1_h1_q80k80_d32_left10_right5"},
    {"window: left only", "b1_h1_q70k70_d64_f16_left9"},
    {"window: right only", "b1_h1_q70k70_d64_bf16_right9"},
    {"window: exactly a tile of 64", "b1_h1_q130k130_d64_f16_causal_left63"},
    {"window: the diagonal", "b1_h2_q65k65_d64_left0_right0"},
    {"window: wider than the sequence", "b1_h1_q50k70_d32_f32_left100_right100"},
    {"window: as wide as an int", "b1_h1_q50k70_d64_f16_left2147483647_right2147483647"},
    {"window: as wide as an int, seq_q > seq_kv", "b1_h1_q70k40_d64_f16_left2147483647"},
    {"window: seq_q < seq_kv, keys that no query sees", "b1_h2_q33k150_d64_f16_left40_right7"},
    {"window: seq_q < seq_kv, one query", "b2_h2_q1k100_d32_f16_causal_left40"},
    {"window: seq_q > seq_kv, rows that see no key", "b1_h2_q100k30_d64_left8_right4"},
    {"window: seq_q > seq_kv, rows that see no key", "b1_h1_q80k40_d128_f16_causal_left5"},
    {"window: grouped heads", "b1_h4x1_q37k71_d32_causal_left12"},
    {"window: grouped heads", "b1_h4x2_q37k71_d128_f16_left3_right8"},
    {"window: strided", "b2_h2_q33k47_d64_f16_left6_right2_bshd"},
    {"window: strided", "b2_h4x2_q33k47_d32_f32_causal_left9_padded"},
    {"window: outliers", "b1_h2_q50k70_d64_f16_left15_right15_peaky"},
    {"window: exp overflows without the maximum", "b1_h1_q90k90_d32_f16_causal_left25_largeq"},

    {"corner: rows that see no key", "b1_h2_q70k20_d64_causal"},
    {"corner: rows that see no key", "b1_h1_q66k1_d32_f16_causal"},
    {"corner: rows that see no key", "b1_h2_q70k20_d128_f32_causal"},
    {"corner: a block that sees no key", "b1_h2_q150k9_d64_f16_causal"},
    {"corner: a scale that is not 1/sqrt(head_dim)", "b1_h1_q50k70_d32_causal_scale0.1"},
    // Few elements dominate here: in a smaller tensor the plain implementation's largest error
    // would be a matter of luck, and so would the limit.
    {"corner: outliers", "b1_h2_q50k70_d64_peaky"},
    {"corner: a uniform softmax", "b1_h1_q50k70_d32_allequal"},
    {"corner: exp overflows without the maximum", "b1_h1_q50k70_d32_largeq"},
    {"corner: rows of which every score is far below 0", "b1_h8_q20k20_d64_causal_largeq"},
    {"corner: maxima that grow from tile to tile", "b1_h1_q70k500_d64_f16_largeq"},
    {"corner: maxima that grow, more tiles than buffers", "b1_h1_q16k400_d128_bf16_largeq"},
    {"corner: a gradient of one element", "b1_h1_q50k70_d32_causal_onehot"},
    {"corner: real activations", "b1_h2_q72k90_d32_real"},
    {"corner: real activations", "b1_h2_q90k90_d32_f16_causal_real"},
};

constexpr Row kLargeRows[] = {
    {"large", "b4_h32_q1024k1024_d64"},
    {"large", "b2_h16_q2048k2048_d128_causal"},
    {"large", "b1_h8x2_q4099k5003_d64_f16_causal"},
    {"large: one query less than keys", "b2_h4_q1023k1024_d64_f16_causal"},
    {"large: one query less than keys", "b2_h4_q1023k1024_d128_bf16"},
    {"large", "b1_h2_q8192k8192_d128_bf16"},
    {"large: real activations, whole", "b1_h12_q206k206_d32_real"},
    {"large: a sliding window", "b1_h8x2_q4099k5003_d64_f16_causal_left1000"},
    {"large: more than 65,535 heads", "b35000_h2_q3k5_d32_f16_causal"},
    {"large: more than 65,535 tiles", "b1_h1_q4200000k3_d32_f16"},
    {"large: offsets above 2^31", "b2_h2_q65k130_d64_f16_causal_far"},
};

constexpr Row kSanitizerRows[] = {
    {"regular", "b1_h2_q128k256_d64"},
    {"regular", "b1_h1_q64k64_d128_f16_causal"},
    {"ragged", "b1_h2_q77k131_d32"},
    {"ragged", "b1_h1_q300k300_d64_f16_causal"},
    {"ragged", "b2_h2_q1k1_d64_f16"},
    {"grouped heads", "b1_h4x2_q33k97_d64_bf16_causal"},
    {"rows that see no key", "b1_h1_q70k20_d128_f16_causal"},
    {"window", "b1_h2_q150k150_d64_causal_left40"},
    {"window, rows that see no key", "b1_h1_q100k30_d32_f16_left8_right4"},
};

template <std::size_t kCount>
std::vector<TestProblem> expand(const Row (&rows)[kCount]) {
  std::vector<TestProblem> problems;
  for (const Row& row : rows) {
    std::string last;
    for (const DType dtype : kDTypes) {
      TestProblem test;
      test.intent = row.intent;
      test.c.problem.dtype = dtype;  // Stays if the name holds none.
      if (!parse_test_case(row.name, test.c)) throw std::logic_error(row.name);
      if (test_case_name(test.c) != last) problems.push_back(test);
      last = test_case_name(test.c);
    }
  }
  return problems;
}

}  // namespace

std::vector<TestProblem> test_problems() { return expand(kRows); }
std::vector<TestProblem> large_problems() { return expand(kLargeRows); }
std::vector<TestProblem> sanitizer_problems() { return expand(kSanitizerRows); }

harness::TestCase case_of(const std::string& name) {
  harness::TestCase c;
  if (!parse_test_case(name, c)) throw std::logic_error(name + " is not a case's name");
  return c;
}

}  // namespace cuflash::tests
