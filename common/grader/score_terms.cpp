#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "values.h"

namespace cuflash::exercises {
namespace {

using Vector = std::vector<double>;

// Solves A x = b by Gaussian elimination. Empty if A is singular.
std::optional<Vector> solution(std::vector<Vector> a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    }
    if (std::abs(a[pivot][k]) < 1e-9) return std::nullopt;
    std::swap(a[k], a[pivot]), std::swap(b[k], b[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

// The weights w with score = scale · Σ w[d] q[d] k[d] that fit the sample's LSE best. Empty if they
// do not fit.
std::optional<Vector> weights(const Sample& s) {
  const Problem& p = s.problem;
  const std::vector<float>&lse = s.run().outputs.tensors.at("LSE"), &q = s.want->inputs.q,
        &k = s.want->inputs.k;
  const std::size_t width = p.head_dim, group = p.heads_q / p.heads_kv;
  std::vector<Vector> terms;
  for (std::size_t row = 0; row < lse.size(); ++row) {
    if (!std::isfinite(lse[row])) return std::nullopt;
    const std::size_t head = row / p.seq_q / group;
    Vector term(width);
    for (std::size_t d = 0; d < width; ++d) {
      term[d] = p.softmax_scale * double{q[row * width + d]} * k[head * width + d];
    }
    terms.push_back(std::move(term));
  }
  std::vector<Vector> squares(width, Vector(width));
  Vector moments(width);
  for (std::size_t row = 0; row < terms.size(); ++row) {
    for (std::size_t d = 0; d < width; ++d) {
      moments[d] += terms[row][d] * lse[row];
      for (std::size_t e = 0; e < width; ++e) squares[d][e] += terms[row][d] * terms[row][e];
    }
  }
  const auto found = solution(squares, moments);
  for (std::size_t row = 0; found && row < terms.size(); ++row) {
    double score = 0;
    for (std::size_t d = 0; d < width; ++d) score += (*found)[d] * terms[row][d];
    if (std::abs(score - lse[row]) > 1e-3) return std::nullopt;
  }
  return found;
}

// "3, 7, 11, ...": the columns with this weight.
std::string columns_with(double weight, const Vector& weights) {
  std::string text;
  int told = 0;
  for (std::size_t d = 0; d < weights.size(); ++d) {
    if (std::abs(weights[d] - weight) > 0.02) continue;
    if (told++ < 3) text += (told == 1 ? "" : ", ") + std::to_string(d);
  }
  return told > 3 ? text + ", ..." : text;
}

}  // namespace

Diagnosis score_terms(const std::vector<Sample>& samples) {
  const auto one_key = std::find_if(samples.begin(), samples.end(), [](const Sample& s) {
    return s.pass == CUFLASH_FORWARD && s.problem.seq_kv == 1 && !s.right() &&
           s.input == harness::InputKind::kGaussian;
  });
  if (one_key == samples.end()) return {};
  const auto found = weights(*one_key);
  if (!found) return {};
  const std::string missing = columns_with(0, *found), twice = columns_with(2, *found);
  if (missing.empty() && twice.empty()) return {};
  std::string words = missing.empty() ? "" : "the columns " + missing + " of Q and K do not count";
  if (!twice.empty()) {
    words += (words.empty() ? "the columns " : ", and the columns ") + twice + " count twice";
  }
  return {"score-terms", " Where a query has one key, its LSE is the score. There " + words + '.',
          ""};
}

}  // namespace cuflash::exercises
