// A problem of the oracle's tests with its inputs, and how its results are compared.
#ifndef CUFLASH_TESTS_UNIT_REFERENCE_EXAMPLE_H_
#define CUFLASH_TESTS_UNIT_REFERENCE_EXAMPLE_H_

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cuflash/workload.h"
#include "reference/reference.h"

namespace cuflash::reference {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline void expect_near(const Array& actual, const Array& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t n = 0; n < actual.size(); ++n) {
    if (actual[n] == expected[n]) continue;  // Infinities have no difference.
    EXPECT_NEAR(actual[n], expected[n], tolerance) << "element " << n;
  }
}

// A problem with random contents.
struct Example {
  Problem problem;
  Array q, k, v, d_o;
};

inline Example example(const std::string& name) {
  Example e;
  EXPECT_TRUE(parse_problem(name, e.problem));
  const Problem& p = e.problem;
  e.q.resize(std::size_t(p.batch) * p.heads_q * p.seq_q * p.head_dim);
  e.k.resize(std::size_t(p.batch) * p.heads_kv * p.seq_kv * p.head_dim);
  e.v = e.k;
  e.d_o = e.q;
  std::mt19937 bits(1);
  std::normal_distribution<double> normal;
  for (Array* array : {&e.q, &e.k, &e.v, &e.d_o}) {
    for (double& x : *array) x = normal(bits);
  }
  return e;
}

// Every row of a [batch, heads, seq] tensor.
inline std::vector<Place> every_place(int batch, int heads, int seq) {
  std::vector<Place> places;
  for (int b = 0; b < batch; ++b) {
    for (int h = 0; h < heads; ++h) {
      for (int row = 0; row < seq; ++row) places.push_back({b, h, row});
    }
  }
  return places;
}

}  // namespace cuflash::reference

#endif  // CUFLASH_TESTS_UNIT_REFERENCE_EXAMPLE_H_
