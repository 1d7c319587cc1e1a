#include "harness/convert.h"
#include "model_parts.h"
#include "simt/matrix.h"

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
        if (mixes_rows()) collect_factors(b, h);
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
  // What a lane knows of its row. All lanes know the same, so one stands for them, unless the
  // mistake is that they do not.
  struct Lane {
    double max, sum, new_max, o_scale;
  };

  // ---- Factors of rows. O is multiplied by one for each tile, and by another at the end.

  bool mixes_rows() const {
    return has(Mistake::kFactorOfColumn) || has(Mistake::kFactorOfLane) ||
           has(Mistake::kFactorOfGpuLane);
  }

  // The row of a fragment whose factor its element (row, column) gets.
  int row_of_factor(int row, int column) const {
    constexpr simt::FragmentType kAccumulator =
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kBlock, kBlock, kBlock, float>::kType;
    const auto holder = simt::order_of(kAccumulator).holder[row * kBlock + column];
    if (has(Mistake::kFactorOfColumn)) return column;
    if (has(Mistake::kFactorOfLane)) return holder.lane / 2;
    return holder.lane / 4 + holder.slot / 2 % 2 * 8;
  }

  // Those of all rows, past the last query too.
  void collect_factors(int b, int h) {
    factors_.clear();
    std::vector<std::vector<double>> all;
    for (int i = 0; i < (p_.seq_q + kBlock - 1) / kBlock * kBlock; ++i) {
      walk_row(b, h, i);
      all.push_back(own_factors_);
    }
    factors_ = std::move(all);
  }

  // Multiplies O by this row's next factor, or what a mistake takes for it.
  template <class Factor>
  void scale(int i, const Factor& own) {
    const std::size_t n = own_factors_.size();
    own_factors_.push_back(own(0));
    for (int d = 0; d < p_.head_dim; ++d) {
      const bool other = mixes_rows() && !factors_.empty();
      const int row = i / kBlock * kBlock + (other ? row_of_factor(i % kBlock, d % kBlock) : 0);
      o_[d] = f32(o_[d] * (other ? factors_[row][n] : own(d)));
    }
  }

  // ---- The walk

  void walk_row(int b, int h, int i) {
    const bool alone = has(Mistake::kMaxOfLane) || has(Mistake::kSumOfLane);
    const double max = has(Mistake::kMaxStartsAtZero) || has(Mistake::kNoMax) ? 0 : -kInfinity;
    lanes_.assign(alone ? block_kv() : 1, {max, 0., max, 0.});
    added_ = false;
    own_factors_.clear();
    o_.assign(p_.head_dim, 0.);
    const int end = end_of_keys(i);
    for (int j0 = first_key(i); j0 < end; j0 += block_kv()) take_tile(b, h, i, j0);
    finish(i);
  }

  // The score that the softmax sees.
  double masked_score(int b, int h, int i, int j) const {
    if (j >= p_.seq_kv && !has(Mistake::kTailAsZeros)) return -kInfinity;
    const bool seen = walk_.after_softmax ? visible(i, j) : sees(i, j);
    if (!seen) return has(Mistake::kMaskedIsZero) ? 0. : -kInfinity;
    return score(b, h, i, j);
  }

  Lane& lane(int n) { return lanes_[n % lanes_.size()]; }

  void take_tile(int b, int h, int i, int j0) {
    std::vector<double> s(block_kv());
    for (int c = 0; c < block_kv(); ++c) s[c] = masked_score(b, h, i, j0 + c);
    const double tile_max = *std::max_element(s.begin(), s.end());
    for (std::size_t n = 0; n < lanes_.size(); ++n) {
      update_max(lanes_[n], has(Mistake::kMaxOfLane) ? s[n] : tile_max);
    }
    if (rescales_o() && !has(Mistake::kRescaledLate)) rescale_o(i);
    double tile_sum = has(Mistake::kSumUnderOldMax) ? sum_under_old_max(s) : 0;
    for (int c = 0; c < block_kv(); ++c) {
      s[c] = exp(s[c] - finite(lane(c).new_max));
      if (!has(Mistake::kSumUnderOldMax)) tile_sum += s[c];
    }
    for (std::size_t n = 0; n < lanes_.size(); ++n) {
      update_sum(lanes_[n], has(Mistake::kSumOfLane) ? s[n] : tile_sum);
    }
    for (int c = 0; c < block_kv(); ++c) {
      const double divided = has(Mistake::kDividedEveryTile) ? weight(lane(c).sum) : 1.;
      add_value(operand(s[c] * divided), b, h, i, j0 + c);
    }
    if (walk_.block_kv == 0) return;  // P is divided by its sum before P V.
    for (double& value : o_) value = f32(value);
    if (rescales_o() && has(Mistake::kRescaledLate)) rescale_o(i);
  }

  // The sum of the probabilities, each of them relative to the largest score up to its own.
  double sum_under_old_max(const std::vector<double>& scores) const {
    double max = -kInfinity, sum = 0;
    for (const double score : scores) {
      max = std::max(max, score);
      sum += exp(score - finite(max));
    }
    return sum;
  }

  // What is subtracted from the scores: the maximum, or 0 where no key has been seen yet.
  double finite(double max) const {
    return max == -kInfinity && !has(Mistake::kNoMaxGuard) ? 0. : max;
  }

  void update_max(Lane& own, double tile_max) const {
    own.new_max = has(Mistake::kMaxOfTileOnly) ? tile_max : std::max(own.max, tile_max);
    if (has(Mistake::kNoMax)) own.new_max = 0;
    if (has(Mistake::kMaxGuardKept)) own.new_max = finite(own.new_max);
    const double exponent = own.max - finite(own.new_max);
    own.o_scale = exp(has(Mistake::kRescaleInverted) ? -exponent : exponent);
    if (has(Mistake::kRescaleExp2)) own.o_scale = f32(std::exp2(exponent));
    if (!has(Mistake::kMaxNotKept)) own.max = own.new_max;
  }

  // A row that is walked whole is not rescaled at all.
  bool rescales_o() const {
    return walk_.block_kv > 0 && !has(Mistake::kNoRescale) && !has(Mistake::kNoRescaleOfO);
  }
  void rescale_o(int i) {
    scale(i, [&](int d) { return lane(d).o_scale; });
  }

  void update_sum(Lane& own, double tile_sum) const {
    const bool missing =
        walk_.block_kv == 0 || has(Mistake::kNoRescale) || has(Mistake::kNoRescaleOfSum);
    const double o_scale = missing ? 1. : own.o_scale;
    if (has(Mistake::kSumOfLastTile)) {
      own.sum = tile_sum;
    } else if (has(Mistake::kSumRescaledLate)) {
      own.sum = (own.sum + tile_sum) * o_scale;
    } else {
      own.sum = own.sum * o_scale + tile_sum;
    }
    own.sum = f32(own.sum);
  }

  void add_value(double prob, int b, int h, int i, int j) {
    if (j >= p_.seq_kv) return;
    const bool hidden = !visible(i, j);
    if (hidden && (has(Mistake::kMaskedScoreAsProb) || finds_score(i, j))) {
      prob = -kInfinity;
    } else if (walk_.after_softmax ? !sees(i, j) : walk_.masks_output && hidden) {
      return;
    }
    if (prob == 0 && hidden) return;
    added_ = true;
    if (has(Mistake::kOutputOfLastKey)) o_.assign(p_.head_dim, 0.);
    if (!has(Mistake::kValuesTurned)) {
      const float* value = value_row(b, h, j);
      for (int d = 0; d < p_.head_dim; ++d) o_[d] += prob * value[d];
      return;
    }
    for (int d = 0; d < p_.head_dim; ++d) {
      const Place at = turned(j, d);
      if (at.row < p_.seq_kv) o_[d] += prob * value_row(b, h, at.row)[at.column];
    }
  }

  // Where the softmax skips hidden keys, the matrix still holds their scores, -INFINITY. A wrong
  // mask of P V lets some of them in; no mask there at all is kMaskedScoreAsProb.
  bool finds_score(int i, int j) const {
    const bool own_mask = walk_.after_softmax && !walk_.masks_output;
    return own_mask && !has(Mistake::kNoMask) && sees(i, j);
  }

  const float* value_row(int b, int h, int j) const {
    const int hk = h / (p_.heads_q / p_.heads_kv);
    const int head = walk_.masks_output ? hk : kv_head(h);
    return has(Mistake::kOutputFromK) ? k_row(b, head, j) : v_row(b, head, j);
  }

  void finish(int i) {
    // Where P is divided before P V, a row to which nothing is added stays 0, whatever its P is.
    if (!walk_.masks_output || added_) scale(i, [&](int d) { return weight(lane(d).sum); });
    const double max = lanes_[0].max, sum = lanes_[0].sum;
    lse_ = max + std::log(sum);
    if (has(Mistake::kLseNoMax)) lse_ = std::log(sum);
    if (has(Mistake::kLseNoLog)) lse_ = max + sum;
    if (has(Mistake::kLseLog2)) lse_ = max + std::log2(sum);
    if (has(Mistake::kLseOnlyMax)) lse_ = max;
    if (has(Mistake::kLseMinus)) lse_ = max - std::log(sum);
    if (has(Mistake::kLseNotWritten)) lse_ = NAN;  // as the harness leaves it
  }

  // What O is multiplied by at the end, for this sum.
  double weight(double sum) const {
    if (has(Mistake::kNotDivided)) return 1.;
    const double inverse = sum == 0 && !has(Mistake::kNoSumGuard) ? 0. : f32(1. / sum);
    return has(Mistake::kDividedTwice) ? inverse * inverse : inverse;
  }

  bool added_ = false;  // a key's value, to o_
  double lse_ = 0;
  std::vector<Lane> lanes_;
  std::vector<double> o_;
  std::vector<double> own_factors_;           // of the row at hand
  std::vector<std::vector<double>> factors_;  // of the head's rows
};

}  // namespace

harness::Outputs model_forward(const Problem& problem, const harness::Inputs& inputs,
                               const Walk& walk, const Mistakes& mistakes) {
  return ForwardModel(problem, inputs, walk, mistakes).run();
}

harness::Outputs model(Pass pass, const Problem& problem, const harness::Inputs& inputs,
                       const Walk& walk, const Mistakes& mistakes) {
  return pass == CUFLASH_FORWARD ? model_forward(problem, inputs, walk, mistakes)
                                 : model_backward(problem, inputs, walk, mistakes);
}

}  // namespace cuflash::exercises
