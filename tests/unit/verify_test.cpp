// The harness's judgement.
#include "harness/verify.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cuflash::harness {
namespace {

// Two elements of which 1 and 2 are expected, within `limit`.
Verdict verdict(float first, float second, double limit) {
  Expected expected;
  expected.tensors.push_back({"dQ", 1, 1, 2, {1., 2.}, limit});
  Outputs outputs;
  outputs.tensors["dQ"] = {first, second};
  return verify(outputs, expected);
}

TEST(Verify, TakesAnErrorUpToTheLimit) {
  EXPECT_TRUE(verdict(1.f, 2.25f, 0.25).ok());
  EXPECT_FALSE(verdict(1.f, 2.5f, 0.25).ok());
  EXPECT_FALSE(verdict(NAN, 2.f, 0.25).ok());
}

TEST(Verify, TakesNothingWhereThereIsNoLimit) {
  for (const double limit : {double{INFINITY}, double{NAN}}) {
    for (const float second : {2.f, INFINITY, NAN}) {
      const Verdict v = verdict(1.f, second, limit);
      EXPECT_FALSE(v.ok());
      EXPECT_NE(v.failures().find("there is no limit"), std::string::npos) << v.failures();
    }
  }
}

}  // namespace
}  // namespace cuflash::harness
