// What the forward and the backward model share: which keys a query sees, and its scores.
#ifndef CUFLASH_GRADER_MODEL_PARTS_H_
#define CUFLASH_GRADER_MODEL_PARTS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "model.h"
#include "reference/layout.h"
#include "reference/round.h"

namespace cuflash::exercises {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Float's range and precision: what is too large becomes infinite.
inline double f32(double x) {
  if (std::abs(x) > std::numeric_limits<float>::max()) return std::copysign(kInfinity, x);
  return static_cast<float>(x);
}

constexpr int kBlock = 16;  // a fragment has as many rows and columns

// An element of a matrix, and where it is read if each block of size × size is transposed.
struct Place {
  int row, column;
};
inline Place turned(int row, int column, int size = kBlock) {
  return {row / size * size + column % size, column / size * size + row % size};
}

harness::Outputs model_forward(const Problem& problem, const harness::Inputs& inputs,
                               const Walk& walk, const Mistakes& mistakes);
harness::Outputs model_backward(const Problem& problem, const harness::Inputs& inputs,
                                const Walk& walk, const Mistakes& mistakes);

// A problem, its inputs, and the mistakes that are made on it.
class Parts {
 public:
  Parts(const Problem& p, const harness::Inputs& in, const Walk& walk, const Mistakes& mistakes)
      : p_(p),
        in_(in),
        walk_(walk),
        mistakes_(mistakes),
        rounded_(reference::rounding(walk.fragments ? p.dtype : CUFLASH_F32)) {}

  bool has(Mistake mistake) const { return mistakes_.test(static_cast<std::size_t>(mistake)); }

  int kv_head(int h) const {
    if (has(Mistake::kKvHeadModulo)) return h % p_.heads_kv;
    if (has(Mistake::kKvHeadZero)) return 0;
    return h / (p_.heads_q / p_.heads_kv);
  }

  // The mask as the kernel has it.
  bool sees(int i, int j) const {
    if (has(Mistake::kNoMask)) return true;
    if (has(Mistake::kMaskTurned)) {
      const Place at = turned(i, j);
      return visible(at.row, at.column);
    }
    if (has(Mistake::kMaskOffsetsExchanged) || has(Mistake::kMaskWithoutOffsets) ||
        has(Mistake::kMaskWithoutRowOffset)) {
      const Place at = without_offsets(i, j);
      return visible(at.row, at.column);
    }
    if (has(Mistake::kMaskInverted)) return !p_.causal || !visible(i, j);
    const std::int64_t place = own_place(i);
    if (has(Mistake::kAlwaysCausal)) {
      return j <= place && (has(Mistake::kNoWindow) || window_sees(place, j));
    }
    return causal_sees(place, j) && (has(Mistake::kNoWindow) || window_sees(place, j));
  }
  // The mask as it must be.
  bool visible(int i, int j) const {
    const std::int64_t place = std::int64_t{i} + p_.seq_kv - p_.seq_q;
    return causal_sees(place, j) && window_sees(place, j);
  }

  // Keys of one tile; the first key, and the end of the keys, that the tiles of query i's block
  // cover.
  int block_kv() const { return walk_.block_kv > 0 ? walk_.block_kv : p_.seq_kv; }
  int first_key(int i) const {
    const bool from_zero = has(Mistake::kHiddenTilesWalked) || has(Mistake::kOnlyFirstTile);
    if (walk_.block_kv == 0 || from_zero) return 0;
    const int first_query = i / walk_.block_q * walk_.block_q;
    return reference::visible_keys(p_, first_query).first / walk_.block_kv * walk_.block_kv;
  }
  int end_of_keys(int i) const {
    if (walk_.block_kv == 0) return p_.seq_kv;
    const int last = std::min((i / walk_.block_q + 1) * walk_.block_q, p_.seq_q) - 1;
    const int first_query = i / walk_.block_q * walk_.block_q;
    const int second_last = std::min(first_query + walk_.block_q - 1, p_.seq_q) - 1;
    const int row = has(Mistake::kTilesOfFirstQuery)       ? first_query
                    : has(Mistake::kTilesWithoutLastQuery) ? std::max(first_query, second_last)
                                                           : last;
    const auto [first, count] = reference::visible_keys(p_, row);
    int end = has(Mistake::kHiddenTilesWalked) ? p_.seq_kv : first + count;
    if (has(Mistake::kTilesTopLeft) && p_.causal) {
      end = std::min(first_query + walk_.block_q, p_.seq_kv);
    }
    const int up = (end + walk_.block_kv - 1) / walk_.block_kv * walk_.block_kv;
    if (has(Mistake::kOnlyFirstTile)) return std::min(up, walk_.block_kv);
    if (has(Mistake::kPartialTileMissing)) return end / walk_.block_kv * walk_.block_kv;
    if (has(Mistake::kLastTileMissing)) return std::max(0, up - walk_.block_kv);
    return up;
  }

  // Rows of a head, as a kernel with its mistakes finds them.
  const float* q_row(int b, int h, int i) const {
    return row(in_.q, b, h, p_.heads_q, p_.seq_q, at_q(i));
  }
  const float* do_row(int b, int h, int i) const {
    return row(in_.d_o, b, h, p_.heads_q, p_.seq_q, i);
  }
  const float* o_row(int b, int h, int i) const {
    return row(in_.o, b, h, p_.heads_q, p_.seq_q, i);
  }
  const float* k_row(int b, int hk, int j) const {
    return row(in_.k, b, hk, p_.heads_kv, p_.seq_kv, at_kv(j));
  }
  const float* v_row(int b, int hk, int j) const {
    return row(in_.v, b, hk, p_.heads_kv, p_.seq_kv, at_kv(j));
  }

  double dot(const float* x, const float* y) const {
    double sum = 0;
    for (int d = 0; d < p_.head_dim; ++d) sum += double{x[d]} * y[d];
    return sum;
  }

  // The score of a pair, scaled; the mask comes after.
  double score(int b, int h, int i, int j) const {
    if (j >= p_.seq_kv || i >= p_.seq_q) return 0;
    const double s = product(b, h, i, j), scale = p_.softmax_scale;
    if (has(Mistake::kNoScale)) return f32(s);
    if (has(Mistake::kScaleTwice)) return s * scale * scale;
    if (has(Mistake::kScaleDivides)) return s / scale;
    if (has(Mistake::kScaleOfLog2)) return s * scale * 1.4426950408889634;
    if (has(Mistake::kScaleWithoutLog2)) return s * scale * 0.6931471805599453;
    return s * scale;
  }

  // A probability or a gradient as an operand: the tensor cores take it in the dtype.
  double operand(double x) const { return rounded_(static_cast<float>(f32(x))); }

  double exp(double x) const {
    if (has(Mistake::kExpOfLog2)) x *= 1.4426950408889634;
    return f32(has(Mistake::kExp2) ? std::exp2(x) : std::exp(x));
  }

 private:
  // Where query i stands among the keys, as the kernel has it.
  std::int64_t own_place(int i) const {
    const std::int64_t offset = std::int64_t{p_.seq_kv} - p_.seq_q;
    if (has(Mistake::kMaskTopLeft)) return i;
    if (has(Mistake::kMaskOffsetSign)) return i - offset;
    if (has(Mistake::kMaskOneTooFew)) return i + offset - 1;
    if (has(Mistake::kMaskOneTooMany)) return i + offset + 1;
    return i + offset;
  }

  // True if a query at this place sees key j.
  bool causal_sees(std::int64_t place, int j) const { return !p_.causal || j <= place; }
  bool window_sees(std::int64_t place, int j) const {
    return (p_.window_left < 0 || j >= place - p_.window_left) &&
           (p_.window_right < 0 || j <= place + p_.window_right);
  }

  // The pair about which the mask is asked where the offsets of a 16 × 16 block in its tile are
  // wrong.
  Place without_offsets(int i, int j) const {
    const int row = i / walk_.mask_q * walk_.mask_q, column = j / walk_.mask_kv * walk_.mask_kv;
    const int row_in_tile = (i - row) / kBlock * kBlock,
              column_in_tile = (j - column) / kBlock * kBlock;
    if (has(Mistake::kMaskWithoutRowOffset)) return {row + i % kBlock, j};
    if (has(Mistake::kMaskWithoutOffsets)) return {row + i % kBlock, column + j % kBlock};
    return {row + column_in_tile + i % kBlock, column + row_in_tile + j % kBlock};
  }

  // Q Kᵀ.
  double product(int b, int h, int i, int j) const {
    const int hk = kv_head(h);
    const float* q = q_row(b, h, i);
    const bool whole = has(Mistake::kKeysNotTransposed);
    if (whole || has(Mistake::kKeysTurned)) {
      const int block = whole ? std::min(block_kv(), p_.head_dim) : kBlock;
      double sum = 0;
      for (int d = 0; d < p_.head_dim; ++d) {
        const Place at = turned(j, d, block);
        if (at.row < p_.seq_kv) sum += double{q[d]} * k_row(b, hk, at.row)[at.column];
      }
      return sum;
    }
    if (has(Mistake::kScoreOfLastFour)) {
      const int skipped = p_.head_dim - 4;
      const float* k = k_row(b, hk, j);
      return std::inner_product(q + skipped, q + p_.head_dim, k + skipped, 0.);
    }
    return dot(q, has(Mistake::kScoresFromV) ? v_row(b, hk, j) : k_row(b, hk, j));
  }

  int at_q(int i) const {
    return has(Mistake::kRowsWithoutFirst) && walk_.block_q > 0 ? i % walk_.block_q : i;
  }
  int at_kv(int j) const {
    return has(Mistake::kRowsWithoutFirst) && walk_.block_kv > 0 ? j % walk_.block_kv : j;
  }
  const float* row(const std::vector<float>& values, int b, int h, int heads, int seq,
                   int i) const {
    return values.data() + ((std::size_t(b) * heads + h) * seq + i) * p_.head_dim;
  }

 protected:
  const Problem& p_;
  const harness::Inputs& in_;
  const Walk& walk_;
  const Mistakes& mistakes_;

 private:
  float (*rounded_)(float);
};

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_MODEL_PARTS_H_
