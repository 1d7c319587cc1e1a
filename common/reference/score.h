/// @file score.h
/// The score of a query and a key: the softmax's argument. A stage that computes another attention
/// on purpose (capped scores, a bias by distance, a mask of its own) says so in its reference.cpp.
#ifndef CUFLASH_REFERENCE_SCORE_H_
#define CUFLASH_REFERENCE_SCORE_H_

#include <limits>

#include "reference/layout.h"

namespace cuflash::reference {

/// The score of a key that a query does not see.
inline constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// True if query i sees key j, by the problem's mask.
inline bool sees(const Problem& p, int i, int j) {
  const auto [first, count] = visible_keys(p, i);
  return first <= j && j < first + count;
}

/// Maps s = softmax_scale · q_i · k_j to the softmax's argument, in every head. By default that is
/// s itself for the keys that the problem's mask shows.
struct Score {
  /// A function of the problem, i, j and s.
  using Function = double (*)(const Problem&, int i, int j, double s);

  /// The softmax's argument; kHidden if query i does not see key j, which this function decides.
  Function value = nullptr;
  /// Its derivative with respect to s; null if that is 1 for all keys seen: a mask, a bias.
  Function derivative = nullptr;

  /// The softmax's argument for one of the keys().
  double of(const Problem& p, int i, int j, double s) const {
    return value != nullptr ? value(p, i, j, s) : s;
  }
  /// Its derivative with respect to s.
  double slope(const Problem& p, int i, int j, double s) const {
    return derivative != nullptr ? derivative(p, i, j, s) : 1.;
  }
  /// The keys that query i may see.
  KeyRange keys(const Problem& p, int i) const {
    return value != nullptr ? KeyRange{0, p.seq_kv} : visible_keys(p, i);
  }
};

}  // namespace cuflash::reference

#endif  // CUFLASH_REFERENCE_SCORE_H_
