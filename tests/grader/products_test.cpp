// What the operands of products stand for.
#include "products.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cuflash/workload.h"
#include "harness/reference_outputs.h"

namespace cuflash::exercises {
namespace {

constexpr int kRows = 16, kCols = 8, kDim = 32;

class ProductsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(parse_problem("b1_h1_q16k24_d32", p_)); }

  // With these elements of A and B.
  template <class A, class B>
  static simt::LoggedProduct product(const A& a, const B& b) {
    simt::LoggedProduct log;
    log.rows = kRows, log.cols = kCols;
    for (int r = 0; r < kRows; ++r) {
      for (int k = 0; k < kProductDepth; ++k) log.a.push_back(static_cast<float>(a(r, k)));
    }
    for (int k = 0; k < kProductDepth; ++k) {
      for (int n = 0; n < kCols; ++n) log.b.push_back(static_cast<float>(b(k, n)));
    }
    log.d.resize(kRows * kCols);
    return log;
  }
  static double dot(const std::vector<float>& a, int i, const std::vector<float>& b, int j) {
    double sum = 0;
    for (int d = 0; d < kDim; ++d) sum += double(a[i * kDim + d]) * b[j * kDim + d];
    return sum;
  }
  static auto part(const std::vector<float>& of, int row, int column) {
    return [&of, row, column](int r, int c) { return of[(row + r) * kDim + column + c]; };
  }
  const harness::Inputs& inputs(Pass pass) {
    want_ = harness::reference_outputs(pass, p_, {});
    return want_->inputs;
  }
  // S = Q Kᵀ, and P V for columns 8 to 15.
  std::vector<simt::LoggedProduct> forward(const harness::Inputs& in) const {
    const auto prob = [&](int i, int j) {
      return std::exp(p_.softmax_scale * dot(in.q, i, in.k, j));
    };
    return {product(part(in.q, 0, 16), [&](int k, int n) { return in.k[(8 + n) * kDim + 16 + k]; }),
            product(prob, part(in.v, 0, 8))};
  }
  static void expect(const Part& part, const char* matrix, int row, int column, bool turned) {
    EXPECT_EQ(part.matrix, matrix);
    EXPECT_EQ(part.row, row) << matrix;
    EXPECT_EQ(part.column, column) << matrix;
    EXPECT_EQ(part.turned, turned) << matrix;
  }

  Problem p_;
  std::shared_ptr<const harness::ReferenceOutputs> want_;
};

TEST_F(ProductsTest, OfTheForwardPass) {
  const harness::Inputs& in = inputs(CUFLASH_FORWARD);
  std::vector<simt::LoggedProduct> logged = forward(in);
  logged.push_back(product([](int, int) { return 0; }, part(in.v, 8, 8)));
  const auto named = named_products(logged, CUFLASH_FORWARD, p_, in);
  ASSERT_EQ(named.size(), 3u);
  expect(named[0].a, "Q", 0, 16, false);
  expect(named[0].b, "K", 8, 16, true);
  expect(named[0].d, "accumulator S", 0, 8, false);
  expect(named[1].a, "P", 0, 0, false);
  expect(named[1].b, "V", 0, 8, false);
  expect(named[1].d, "accumulator O", 0, 8, false);
  EXPECT_FALSE(named[1].continues);
  expect(named[2].a, "P", 0, 8, false);
  EXPECT_TRUE(named[2].continues) << "of the same accumulator";
}

TEST_F(ProductsTest, RowsOfAWarpAreThoseOfItsScores) {
  const harness::Inputs& in = inputs(CUFLASH_FORWARD);
  const auto named =
      named_products({forward(in)[0], product([](int, int) { return 0; }, part(in.v, 8, 8))},
                     CUFLASH_FORWARD, p_, in);
  ASSERT_EQ(named.size(), 2u);
  expect(named[1].a, "P", 0, 8, false);
}

TEST_F(ProductsTest, OfTheBackwardPass) {
  const harness::Inputs& in = inputs(CUFLASH_BACKWARD);
  const auto prob = [&](int j, int i) {
    return std::exp(p_.softmax_scale * dot(in.q, i, in.k, 8 + j) - in.lse[i]);
  };
  const auto gradient = [&](int j, int i) {
    return prob(j, i) * (dot(in.d_o, i, in.v, 8 + j) - dot(in.d_o, i, in.o, i));
  };
  const auto turned = [&](int i, int j) { return gradient(j, i); };
  const auto named =
      named_products({product(prob, part(in.d_o, 0, 0)), product(gradient, part(in.q, 0, 24)),
                      product(turned, part(in.k, 8, 8))},
                     CUFLASH_BACKWARD, p_, in);
  ASSERT_EQ(named.size(), 3u);
  expect(named[0].a, "P", 0, 8, true);
  expect(named[0].d, "accumulator dV", 8, 0, false);
  expect(named[1].a, "dS", 0, 8, true);
  expect(named[1].d, "accumulator dK", 8, 24, false);
  expect(named[2].a, "dS", 0, 8, false);
  expect(named[2].d, "accumulator dQ", 0, 8, false);
}

TEST_F(ProductsTest, AreLikeTheStagesInAnyOrder) {
  const harness::Inputs& in = inputs(CUFLASH_FORWARD);
  const auto own = named_products(forward(in), CUFLASH_FORWARD, p_, in);
  std::vector<simt::LoggedProduct> mine = forward(in);
  std::swap(mine[0], mine[1]);
  mine[0].a[5] = 100;  // of P
  const auto like = products_like(mine, own);
  ASSERT_EQ(like.size(), 2u);
  EXPECT_EQ(like[0].like, 1);
  EXPECT_EQ(like[0].a.matrix, "P");
  EXPECT_EQ(like[1].like, 0);
  EXPECT_TRUE(like[0].continues && like[1].continues) << "in another order sums are not compared";
  EXPECT_FALSE(products_like(forward(in), own)[1].continues);
}

}  // namespace
}  // namespace cuflash::exercises
