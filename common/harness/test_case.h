// One test case of a stage, and its name: the test's id and the argument of `ladder --shape`.
#ifndef CUFLASH_HARNESS_TEST_CASE_H_
#define CUFLASH_HARNESS_TEST_CASE_H_

#include <string>
#include <string_view>

#include "cuflash/problem.h"
#include "harness/inputs.h"
#include "harness/stage_call.h"

namespace cuflash::harness {

struct TestCase {
  Problem problem;
  InputSource source;
  CallOptions options;
};

// The problem's name, then scale, inputs, layout, left-out outputs, and additions in any order, if
// they are not the default: "b1_h2_q64k64_d64_f16", "b1_h2_q50k70_d64_f32_peaky",
// "b1_h2_q64k64_d64_f16_scale0.1", "b2_h2_q33k47_d64_f16_padded_no_lse",
// "b1_h2_q64k64_d64_f16_any_order".
std::string test_case_name(const TestCase& c);

// Parses a name of test_case_name(); parts that the name leaves out keep the values of `c`. Returns
// false, and leaves `c` unchanged, if the text is not a case's name.
bool parse_test_case(std::string_view text, TestCase& c);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_TEST_CASE_H_
