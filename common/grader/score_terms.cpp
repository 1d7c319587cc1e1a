#include <algorithm>
#include <cmath>
#include <vector>

#include "values.h"

namespace cuflash::exercises {
namespace {

// The weights w with score = scale · Σ w[d] q[d] k[d] that fit the sample's LSE: they are corrected
// for one query after the other, each time along its terms. Empty if they do not fit.
std::vector<double> weights(const Sample& s) {
  constexpr int kWalks = 200;
  const Problem& p = s.problem;
  const std::vector<float>&lse = s.run().outputs.tensors.at("LSE"), &q = s.want->inputs.q,
        &k = s.want->inputs.k;
  const std::size_t width = p.head_dim, group = p.heads_q / p.heads_kv;
  std::vector<double> found(width), terms(width);
  double worst = 0;
  for (int walk = 0; walk < kWalks; ++walk) {
    worst = 0;
    for (std::size_t row = 0; row < lse.size(); ++row) {
      const float *of_q = &q[row * width], *of_k = &k[row / p.seq_q / group * width];
      double error = lse[row], size = 0;
      for (std::size_t d = 0; d < width; ++d) {
        terms[d] = p.softmax_scale * double{of_q[d]} * of_k[d];
        error -= found[d] * terms[d], size += terms[d] * terms[d];
      }
      for (std::size_t d = 0; d < width; ++d) found[d] += error / size * terms[d];
      worst = std::max(std::abs(error), worst);  // NaN from the first one on
    }
  }
  return worst <= 1e-3 ? found : std::vector<double>();
}

// The columns with this weight.
std::string columns_with(double weight, const std::vector<double>& weights) {
  std::vector<int> columns;
  for (std::size_t d = 0; d < weights.size(); ++d) {
    if (std::abs(weights[d] - weight) <= 0.02) columns.push_back(static_cast<int>(d));
  }
  return some_of(columns);
}

}  // namespace

Diagnosis score_terms(const std::vector<Sample>& samples) {
  const auto one_key = std::find_if(samples.begin(), samples.end(), [](const Sample& s) {
    return s.pass == CUFLASH_FORWARD && s.problem.seq_kv == 1 && !s.right() &&
           s.input == harness::InputKind::kGaussian;
  });
  if (one_key == samples.end()) return {};
  const std::vector<double> found = weights(*one_key);
  const std::string missing = columns_with(0, found), twice = columns_with(2, found);
  if (missing.empty() && twice.empty()) return {};
  std::string words = missing.empty() ? "" : "the columns " + missing + " of Q and K do not count";
  if (!twice.empty()) {
    words += (words.empty() ? "the columns " : ", and the columns ") + twice + " count twice";
  }
  return {"score-terms", " Where a query has one key, its LSE is the score. There " + words + '.'};
}

}  // namespace cuflash::exercises
