// The harness's comparison of outputs with expected values.
#include "harness/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cuflash::harness {
namespace {

// Two elements of which 1 and 2 are expected, within `limit`.
Accuracy accuracy(float first, float second, double limit) {
  ReferenceOutputs expected;
  expected.tensors.push_back({"dQ", 1, 1, 2, {1., 2.}, limit});
  Outputs outputs;
  outputs.tensors["dQ"] = {first, second};
  return check_accuracy(outputs, expected);
}

TEST(Verify, TakesAnErrorUpToTheLimit) {
  EXPECT_TRUE(accuracy(1.f, 2.25f, 0.25).ok());
  EXPECT_FALSE(accuracy(1.f, 2.5f, 0.25).ok());
  EXPECT_FALSE(accuracy(NAN, 2.f, 0.25).ok());
}

TEST(Verify, TakesNothingWhereThereIsNoLimit) {
  for (const double limit : {double{INFINITY}, double{NAN}}) {
    for (const float second : {2.f, INFINITY, NAN}) {
      const Accuracy v = accuracy(1.f, second, limit);
      EXPECT_FALSE(v.ok());
      EXPECT_NE(v.failures().find("there is no limit"), std::string::npos) << v.failures();
    }
  }
}

TEST(FirstDifference, TellsNeighbouringFloatsApart) {
  Outputs a, b;
  a.tensors["dQ"] = {1.f, 2.f, -NAN};
  b.tensors["dQ"] = {1.f, std::nextafter(2.f, 3.f), NAN};
  EXPECT_EQ(first_difference(a, b), "dQ differs at element 1: 2 and 2.00000024");
  b.tensors["dQ"][1] = 2.f;
  EXPECT_NE(first_difference(a, b).find(", with different bits"), std::string::npos);
  EXPECT_EQ(first_difference(a, a), "");
}

}  // namespace
}  // namespace cuflash::harness
