#include "ratio.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace cuflash::bench {
namespace {

// The number of values to leave out on either side of n, so that the others span the median with a
// probability of at least 95 %: at most that many heads of n coins have a probability of 2.5 %.
std::size_t left_out(std::size_t n) {
  double exactly = std::pow(0.5, n), at_most = exactly;
  std::size_t heads = 0;
  while (at_most <= 0.025) {
    exactly *= static_cast<double>(n - heads) / (heads + 1);
    ++heads;
    at_most += exactly;
  }
  if (heads == 0) throw std::logic_error("So few values have no 95 % interval.");
  return heads - 1;
}

}  // namespace

Median median_of(std::vector<double> values) {
  const std::size_t n = values.size(), out = left_out(n);
  std::sort(values.begin(), values.end());
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, (values[n - 1 - out] - values[out]) / 2};
}

Ratio ratio_of(const std::vector<double>& times) {
  if (times.size() % 4 != 0) throw std::logic_error("A turn is A B B A.");
  std::vector<double> a, b, ratios;
  for (auto turn = times.begin(); turn != times.end(); turn += 4) {
    a.insert(a.end(), {turn[0], turn[3]});
    b.insert(b.end(), {turn[1], turn[2]});
    ratios.push_back((turn[1] + turn[2]) / (turn[0] + turn[3]));
  }
  const Median ratio = median_of(std::move(ratios));
  return {ratio.value, ratio.spread, median_of(std::move(a)).value, median_of(std::move(b)).value};
}

bool is_slower(double ratio, double spread) { return ratio - 1. > std::max(0.01, 2. * spread); }

}  // namespace cuflash::bench
