#include "harness/convert.h"
#include "model_parts.h"

namespace cuflash::exercises {
namespace {

class BackwardModel : Parts {
 public:
  using Parts::Parts;

  harness::Outputs run() {
    dq_.assign(in_.q.size(), 0.), dk_.assign(in_.k.size(), 0.), dv_.assign(in_.v.size(), 0.);
    for (int b = 0; b < p_.batch; ++b) {
      for (int h = 0; h < p_.heads_q; ++h) {
        for (int i = 0; i < p_.seq_q; ++i) walk_row(b, h, i);
      }
    }
    harness::Outputs out;
    store(out.tensors["dQ"], dq_);
    store(out.tensors["dK"], dk_);
    store(out.tensors["dV"], dv_);
    return out;
  }

 private:
  void store(std::vector<float>& to, const std::vector<double>& from) const {
    for (const double value : from) to.push_back(static_cast<float>(f32(value)));
    harness::round_to(p_.dtype, to);
  }

  void walk_row(int b, int h, int i) {
    const float* d_o = do_row(b, h, i);
    const double own_lse = lse_of(b, h, i), own_delta = delta_of(b, h, i);
    for (int j = first_key(i); j < std::min(end_of_keys(i), end_of_rows()); ++j) {
      // What a stage leaves out by the mask of its later kernels stays out.
      if (!sees(i, j) || (walk_.masks_output && !visible(i, j))) continue;
      const int side = turned(i, j).row;
      const double lse = has(Mistake::kLseOfColumn) ? lse_of(b, h, side) : own_lse;
      const double delta = has(Mistake::kDeltaOfColumn) ? delta_of(b, h, side) : own_delta;
      const double scale = p_.softmax_scale;
      double s = score(b, h, i, j);
      double dp = j < p_.seq_kv ? dot(d_o, v_row(b, kv_head(h), j)) : 0.;
      if (has(Mistake::kScoreAndDpSwapped)) {
        const double product = s / scale;
        s = dp * scale, dp = product;
      }
      const double prob = exp(has(Mistake::kNoLse)            ? s
                              : has(Mistake::kLseAdded)       ? s + lse
                              : has(Mistake::kLseScaled)      ? s - lse * scale
                              : has(Mistake::kLseWithoutLog2) ? s - lse * 0.6931471805599453
                                                              : s - lse);
      const double ds = score_gradient(prob, dp, delta);
      if (has(Mistake::kProbAndDsSwapped)) {
        take_pair(b, h, i, j, ds, prob);
      } else {
        take_pair(b, h, i, j, prob, ds);
      }
    }
  }

  // Keys past the last fill up a block: zeros, whose P and dS nobody reads unless by mistake.
  int end_of_rows() const {
    if (has(Mistake::kTailNotMasked)) return std::numeric_limits<int>::max();
    const bool read = has(Mistake::kTransposedTwice);
    return read ? (p_.seq_kv + kBlock - 1) / kBlock * kBlock : p_.seq_kv;
  }

  // Past the last query P and dS are 0.
  double lse_of(int b, int h, int i) const {
    if (i >= p_.seq_q) return kInfinity;
    return in_.lse[(std::size_t(b) * p_.heads_q + h) * p_.seq_q + i];
  }
  double delta_of(int b, int h, int i) const {
    if (i >= p_.seq_q || has(Mistake::kNoDelta)) return 0;
    return dot(do_row(b, h, i), o_row(b, h, i));
  }

  double score_gradient(double prob, double dp, double delta) const {
    double ds = prob * (dp - delta);
    if (has(Mistake::kDeltaAdded)) ds = prob * (dp + delta);
    if (has(Mistake::kDeltaOutside)) ds = prob * dp - delta;
    if (has(Mistake::kDiagonalOnly)) ds = prob * (1 - prob) * dp;
    if (has(Mistake::kNoProb)) ds = dp - delta;
    if (has(Mistake::kScaleInDs)) ds *= p_.softmax_scale;
    return ds;
  }

  void take_pair(int b, int h, int i, int j, double prob, double ds) {
    const int hk = kv_head(h);
    prob = operand(prob), ds = operand(ds) * p_.softmax_scale;
    double* dq = &dq_[((std::size_t(b) * p_.heads_q + h) * p_.seq_q + i) * p_.head_dim];
    for (int d = 0; d < p_.head_dim; ++d) dq[d] += ds * (j < p_.seq_kv ? k_row(b, hk, j)[d] : 0.);

    const Place pair = has(Mistake::kTransposedTwice) ? turned(i, j) : Place{i, j};
    if (pair.row >= p_.seq_q || pair.column >= p_.seq_kv) return;
    const std::size_t key = (std::size_t(b) * p_.heads_kv + hk) * p_.seq_kv + pair.column;
    const float *q = q_row(b, h, 0), *d_o = do_row(b, h, 0);
    if (has(Mistake::kQueriesForOutputGradients)) std::swap(q, d_o);
    add_rows(&dk_[key * p_.head_dim], ds, q, pair.row, has(Mistake::kQueriesTurned));
    add_rows(&dv_[key * p_.head_dim], prob, d_o, pair.row, has(Mistake::kOutputGradientsTurned));
  }

  // Adds row i of a head of Q or dO, times a factor.
  void add_rows(double* to, double factor, const float* head, int i, bool is_turned) const {
    if (!is_turned) {
      for (int d = 0; d < p_.head_dim; ++d) to[d] += factor * head[i * p_.head_dim + d];
      return;
    }
    for (int d = 0; d < p_.head_dim; ++d) {
      const Place at = turned(i, d);
      if (at.row < p_.seq_q) to[d] += factor * head[at.row * p_.head_dim + at.column];
    }
  }

  std::vector<double> dq_, dk_, dv_;
};

}  // namespace

harness::Outputs model_backward(const Problem& problem, const harness::Inputs& inputs,
                                const Walk& walk, const Mistakes& mistakes) {
  return BackwardModel(problem, inputs, walk, mistakes).run();
}

}  // namespace cuflash::exercises
