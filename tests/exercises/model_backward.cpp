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
    const double delta = has(Mistake::kNoDelta) ? 0. : dot(d_o, o_row(b, h, i));
    const double lse = in_.lse[(std::size_t(b) * p_.heads_q + h) * p_.seq_q + i];
    for (int j = 0; j < std::min(end_of_keys(i), p_.seq_kv); ++j) {
      // What a stage leaves out by the mask of its later kernels stays out.
      if (!sees(i, j) || (walk_.masks_output && !visible(i, j))) continue;
      const double s = score(b, h, i, j);
      const double prob = exp(has(Mistake::kNoLse)      ? s
                              : has(Mistake::kLseAdded) ? s + lse
                                                        : s - lse);
      const double dp = dot(d_o, v_row(b, kv_head(h), j));
      const double ds = score_gradient(prob, dp, delta);
      if (has(Mistake::kProbAndDsSwapped)) {
        take_pair(b, h, i, j, ds, prob);
      } else {
        take_pair(b, h, i, j, prob, ds);
      }
    }
  }

  double score_gradient(double prob, double dp, double delta) const {
    double ds = prob * (dp - delta);
    if (has(Mistake::kDeltaAdded)) ds = prob * (dp + delta);
    if (has(Mistake::kDeltaOutside)) ds = prob * dp - delta;
    if (has(Mistake::kNoProb)) ds = dp - delta;
    if (has(Mistake::kScaleInDs)) ds *= p_.softmax_scale;
    return ds;
  }

  void take_pair(int b, int h, int i, int j, double prob, double ds) {
    const int hk = kv_head(h);
    const double scale = p_.softmax_scale;
    const float *q = q_row(b, h, i), *k = k_row(b, hk, j), *d_o = do_row(b, h, i);
    double* dq = &dq_[((std::size_t(b) * p_.heads_q + h) * p_.seq_q + i) * p_.head_dim];
    const std::size_t key = ((std::size_t(b) * p_.heads_kv + hk) * p_.seq_kv + j) * p_.head_dim;
    for (int d = 0; d < p_.head_dim; ++d) {
      dq[d] += ds * scale * k[d];
      dk_[key + d] += ds * scale * q[d];
      dv_[key + d] += prob * d_o[d];
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
