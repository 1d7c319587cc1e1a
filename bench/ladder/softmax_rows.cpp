// The softmax state of each row after each tile, in double precision.
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/stage_score.h"
#include "harness/traffic.h"
#include "ladder/recorded_run.h"
#include "measure.h"

namespace cuflash::bench {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// The scores of a query of the first head; kNone for a masked key.
std::vector<double> scores_of_row(const Problem& p, const harness::Inputs& inputs,
                                  const reference::Score& score, int i) {
  std::vector<double> scores(static_cast<std::size_t>(p.seq_kv), kNone);
  const auto [first, count] = score.keys(p, i);
  for (int j = first; j < first + count; ++j) {
    double s = 0.;
    for (int d = 0; d < p.head_dim; ++d) {
      s += double(inputs.q[std::size_t(i) * p.head_dim + d]) *
           double(inputs.k[std::size_t(j) * p.head_dim + d]);
    }
    scores[static_cast<std::size_t>(j)] = score.of(p, i, j, s * double(p.softmax_scale));
  }
  return scores;
}

// exp(a − b), and 0 if a is -inf, even where b is, too.
double weight(double a, double b) { return a == kNone ? 0. : std::exp(a - b); }

}  // namespace

std::vector<SoftmaxRows> softmax_rows(const Stage& stage, const harness::TestCase& c,
                                      const std::vector<int>& order) {
  const Problem& p = c.problem;
  const int length = harness::main_tile(stage, CUFLASH_FORWARD, p).streamed;
  if (length == 0) return {};
  const harness::Inputs& inputs = unchecked_inputs(CUFLASH_FORWARD, c);
  std::vector<SoftmaxRows> tiles;
  for (const int tile : order) tiles.push_back({tile, {}, {}, {}});
  for (int i = 0; i < p.seq_q; ++i) {
    const std::vector<double> scores = scores_of_row(p, inputs, harness::score_of(stage), i);
    double row_max = kNone, row_sum = 0.;
    for (SoftmaxRows& rows : tiles) {
      const auto at = [&](int key) { return scores.begin() + std::min(key, p.seq_kv); };
      const auto first = at(rows.tile * length), end = at((rows.tile + 1) * length);
      const double old_max = row_max;
      for (auto s = first; s != end; ++s) row_max = std::max(row_max, *s);
      const double o_scale = weight(old_max, row_max);
      row_sum *= o_scale;
      for (auto s = first; s != end; ++s) row_sum += weight(*s, row_max);
      rows.row_max.push_back(row_max);
      rows.row_sum.push_back(row_sum);
      rows.o_scale.push_back(o_scale);
    }
  }
  return tiles;
}

}  // namespace cuflash::bench
