#include "harness/convert.h"
#include "model_parts.h"

namespace cuflash::exercises {
namespace {

class ForwardModel : Parts {
 public:
  using Parts::Parts;

  harness::Outputs run() {
    harness::Outputs out;
    auto &o = out.tensors["O"], &lse = out.tensors["LSE"];
    for (int b = 0; b < p_.batch; ++b) {
      for (int h = 0; h < p_.heads_q; ++h) {
        for (int i = 0; i < p_.seq_q; ++i) {
          walk_row(b, h, i);
          for (const double value : o_) o.push_back(static_cast<float>(f32(value)));
          lse.push_back(static_cast<float>(f32(lse_)));
        }
      }
    }
    harness::round_to(p_.dtype, o);
    return out;
  }

 private:
  // Calls take_tile() for each tile, then finishes the row.
  void walk_row(int b, int h, int i) {
    row_max_ = has(Mistake::kMaxStartsAtZero) || has(Mistake::kNoMax) ? 0 : -kInfinity;
    row_sum_ = 0;
    added_ = false;
    o_.assign(p_.head_dim, 0.);
    const int end = end_of_keys(i);
    for (int j0 = 0; j0 < end; j0 += block_kv()) take_tile(b, h, i, j0);
    finish();
  }

  // The score that the softmax sees.
  double masked_score(int b, int h, int i, int j) const {
    if (j >= p_.seq_kv && !has(Mistake::kTailAsZeros)) return -kInfinity;
    if (!sees(i, j)) return has(Mistake::kMaskedIsZero) ? 0. : -kInfinity;
    return score(b, h, i, j);
  }

  void take_tile(int b, int h, int i, int j0) {
    std::vector<double> s(block_kv());
    double tile_max = -kInfinity;
    for (int c = 0; c < block_kv(); ++c) {
      s[c] = masked_score(b, h, i, j0 + c);
      tile_max = std::max(tile_max, s[c]);
    }
    double new_max = std::max(row_max_, tile_max);
    if (has(Mistake::kMaxOfTileOnly)) new_max = tile_max;
    if (has(Mistake::kNoMax)) new_max = 0;
    const bool guard = new_max == -kInfinity && !has(Mistake::kNoMaxGuard);
    const double finite_max = guard ? 0. : new_max;
    const double o_scale =
        exp(has(Mistake::kRescaleInverted) ? finite_max - row_max_ : row_max_ - finite_max);
    rescale(o_scale);
    double sum = 0;
    for (int c = 0; c < block_kv(); ++c) {
      const double prob = exp(s[c] - finite_max);
      sum += prob;
      add_value(prob, b, h, i, j0 + c);
    }
    row_sum_ = f32((has(Mistake::kSumOfLastTile) ? 0. : row_sum_) + sum);
    if (has(Mistake::kRescaleAfterAdding) && j0 > 0) {
      row_sum_ *= o_scale;
      for (double& o : o_) o *= o_scale;
    }
    if (has(Mistake::kDividedEveryTile)) {
      for (double& o : o_) o /= row_sum_;
    }
    if (!has(Mistake::kMaxNotKept)) row_max_ = new_max;
    last_max_ = new_max;
  }

  void rescale(double o_scale) {
    // A row that is walked whole is not rescaled at all.
    if (walk_.block_kv == 0) return;
    if (has(Mistake::kNoRescale) || has(Mistake::kRescaleAfterAdding)) return;
    if (!has(Mistake::kNoRescaleOfSum)) row_sum_ *= o_scale;
    if (has(Mistake::kNoRescaleOfO)) return;
    for (double& o : o_) o *= o_scale;
  }

  void add_value(double prob, int b, int h, int i, int j) {
    if (j >= p_.seq_kv || (walk_.masks_output && !visible(i, j))) return;
    if (prob == 0 && !sees(i, j)) return;
    const int hk = h / (p_.heads_q / p_.heads_kv);
    const int head = walk_.masks_output ? hk : kv_head(h);
    const float* value = has(Mistake::kOutputFromK) ? k_row(b, head, j) : v_row(b, head, j);
    added_ = true;
    for (int d = 0; d < p_.head_dim; ++d) o_[d] += prob * value[d];
  }

  void finish() {
    const bool empty = row_sum_ == 0 && !has(Mistake::kNoSumGuard);
    double inverse = empty ? 0. : f32(1. / row_sum_);
    if (has(Mistake::kNotDivided) || has(Mistake::kDividedEveryTile)) inverse = 1;
    if (has(Mistake::kDividedTwice)) inverse *= inverse;
    // Where P is divided before P V, a row to which nothing is added stays 0, whatever its P is.
    if (!walk_.masks_output || added_) {
      for (double& o : o_) o *= inverse;
    }
    const double max = has(Mistake::kMaxNotKept) ? row_max_ : last_max_;
    lse_ = max + std::log(row_sum_);
    if (has(Mistake::kLseNoMax)) lse_ = std::log(row_sum_);
    if (has(Mistake::kLseNoLog)) lse_ = max + row_sum_;
    if (has(Mistake::kLseLog2)) lse_ = max + std::log2(row_sum_);
    if (has(Mistake::kLseOnlyMax)) lse_ = max;
    if (has(Mistake::kLseMinus)) lse_ = max - std::log(row_sum_);
  }

  bool added_ = false;  // a key's value, to o_
  double row_max_ = 0, last_max_ = 0, row_sum_ = 0, lse_ = 0;
  std::vector<double> o_;
};

}  // namespace

harness::Outputs model_forward(const Problem& problem, const harness::Inputs& inputs,
                               const Walk& walk, const Mistakes& mistakes) {
  return ForwardModel(problem, inputs, walk, mistakes).run();
}

harness::Outputs model(Pass pass, const Problem& problem, const harness::Inputs& inputs,
                       const Walk& walk, const Mistakes& mistakes) {
  return pass == Pass::kForward ? model_forward(problem, inputs, walk, mistakes)
                                : model_backward(problem, inputs, walk, mistakes);
}

}  // namespace cuflash::exercises
