#include <algorithm>
#include <cmath>

#include "harness/convert.h"
#include "values.h"

namespace cuflash::exercises {
namespace {

// True if a value equals the model's, as far as float and the dtype can tell.
bool equal(double got, double predicted, double slack) {
  if (std::isfinite(got) && std::isfinite(predicted)) return std::abs(got - predicted) <= slack;
  return got == predicted || (std::isnan(got) && std::isnan(predicted));
}

// How an overflow ends, as an infinity or as NaN, depends on the order of the operations.
bool both_overflow(double got, double predicted) {
  constexpr double kHuge = 1e33;
  return !std::isfinite(got) && !(std::abs(predicted) < kHuge);
}

template <class T>
double largest_finite(const std::vector<T>& values) {
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Far beyond what is right. Rounding is then blown up with the values, and they tell no more.
bool explodes(const std::vector<float>& values, const harness::ReferenceTensor& want) {
  constexpr double kFar = 1e6;
  return largest_finite(values) > kFar * largest_finite(want.values);
}

// True if the sum of this row of the forward pass is infinite, by its LSE. What O is then,
// infinite, NaN or 0, depends on the order of the operations.
bool overflows(const harness::Outputs& outputs, std::size_t row) {
  const auto lse = outputs.tensors.find("LSE");
  return lse != outputs.tensors.end() && !(lse->second[row] < HUGE_VAL);
}

// dQ comes from another kernel, or another part of one, than dK and dV, and O is not finished when
// LSE is. A mistake need not explain a part that is right.
bool same_part(const std::string& a, const std::string& b) {
  return a == b || (a[0] == 'd' && (a == "dQ") == (b == "dQ"));
}

bool spoilt(const std::string& tensor, const std::vector<const Sample*>& samples) {
  return std::any_of(samples.begin(), samples.end(), [&](const Sample* s) {
    const auto& checks = s->run().accuracy.tensors;
    return std::any_of(checks.begin(), checks.end(), [&](const harness::TensorAccuracy& check) {
      return !check.ok && same_part(check.name, tensor);
    });
  });
}

// In the backward pass one key, or large scores, make P one-hot. Then dP - delta is what rounding
// leaves, and a mistake in P blows it up: its values tell nothing.
bool amplifies_rounding(const Sample& s) {
  const bool one_hot = s.input == harness::InputKind::kLargeQ || s.problem.seq_kv == 1;
  return s.pass == CUFLASH_BACKWARD && one_hot;
}

bool leaves_tail(const Mistakes& mistakes) {
  return mistakes.test(static_cast<std::size_t>(Mistake::kTailNotMasked));
}

bool explains(const Mistakes& mistakes, const Sample& s, const std::vector<std::string>& wanted) {
  // What float may lose; exp makes much of the rounding of large scores.
  if (amplifies_rounding(s) && !leaves_tail(mistakes)) return mistakes.any() || s.right();
  const double relative = s.input == harness::InputKind::kLargeQ ? 0.1 : 2e-3;
  Walk walk = s.walk;
  walk.after_softmax = s.pass == CUFLASH_FORWARD && wanted == std::vector<std::string>{"O"};
  // Of the two kernels of a backward pass one owns queries, the other keys.
  walk.mask_q = std::max(walk.block_q, 1), walk.mask_kv = std::max(walk.block_kv, 1);
  if (s.pass == CUFLASH_BACKWARD && wanted.front() != "dQ") std::swap(walk.mask_q, walk.mask_kv);
  const auto predicted = model(s.pass, s.problem, s.want->inputs, walk, mistakes);
  for (const harness::ReferenceTensor& tensor : s.want->tensors) {
    if (std::find(wanted.begin(), wanted.end(), tensor.name) == wanted.end()) continue;
    const auto &got = s.run().outputs.tensors.at(tensor.name),
               &want = predicted.tensors.at(tensor.name);
    const bool lse = tensor.name == "LSE";
    const bool unwritten = lse && mistakes.test(static_cast<std::size_t>(Mistake::kLseNotWritten));
    if (!lse && explodes(want, tensor) && explodes(got, tensor)) continue;
    const double largest = largest_finite(want);
    const double slack = 4 * tensor.limit + relative * largest +
                         4 * harness::half_ulp(lse ? CUFLASH_F32 : s.problem.dtype, largest);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (unwritten ? poison(got[i], CUFLASH_F32) : equal(got[i], want[i], slack)) continue;
      const std::size_t row = i / tensor.width;
      const bool lost = got[i] == 0 || !std::isfinite(got[i]);
      if (!lse && lost && overflows(predicted, row) && overflows(s.run().outputs, row)) continue;
      if (lse || !both_overflow(got[i], want[i])) return false;
    }
  }
  return true;
}

bool explains_all(const Mistakes& mistakes, const std::vector<const Sample*>& samples) {
  const auto tells = [](const Sample* s) { return !s->right() && !amplifies_rounding(*s); };
  if (!leaves_tail(mistakes) && std::none_of(samples.begin(), samples.end(), tells)) return false;
  std::vector<std::string> wanted;
  for (const harness::ReferenceTensor& tensor : samples.front()->want->tensors) {
    if (spoilt(tensor.name, samples)) wanted.push_back(tensor.name);
  }
  return std::all_of(samples.begin(), samples.end(),
                     [&](const Sample* s) { return explains(mistakes, *s, wanted); });
}

// The wrong ones first, the smaller first: most hypotheses are refuted at once.
std::vector<const Sample*> in_order(const std::vector<Sample>& samples) {
  const auto cost = [](const Sample* s) { return work_of(s->problem) * (s->right() ? 1e6 : 1); };
  std::vector<const Sample*> order;
  for (const Sample& sample : samples) order.push_back(&sample);
  std::sort(order.begin(), order.end(),
            [&](const Sample* a, const Sample* b) { return cost(a) < cost(b); });
  return order;
}

// The pass that a mistake can be made in.
enum class Where { kForward, kBackward, kBoth };

// What a stage must have for a mistake to be made in it.
enum class Needs { kNothing, kWholeRows, kTiles, kOnlineSoftmax, kFragments };

struct MistakeRow {
  Mistake mistake;
  Where where;
  Needs needs;
  const char *id, *message, *more = "";
};

constexpr MistakeRow kMistakes[] = {
#define CUFLASH_MISTAKE(name, where, needs, ...) \
  {Mistake::name, Where::where, Needs::needs, __VA_ARGS__},
#include "mistakes.inc"
#undef CUFLASH_MISTAKE
};

bool can_be_made(const MistakeRow& row, const Sample& sample, bool located) {
  const Where other = sample.pass == CUFLASH_FORWARD ? Where::kBackward : Where::kForward;
  if (row.where == other) return false;
  switch (row.needs) {
    case Needs::kOnlineSoftmax:
      return !sample.whole_matrices;
    case Needs::kWholeRows:
      return sample.walk.block_kv == 0;
    case Needs::kTiles:
      return sample.walk.block_kv > 0;
    case Needs::kFragments:
      return sample.walk.fragments && !located;
    default:
      return true;
  }
}

Mistakes with(const MistakeRow& row) {
  return Mistakes().set(static_cast<std::size_t>(row.mistake));
}

}  // namespace

std::vector<Diagnosis> named_mistakes(const std::vector<Sample>& samples, bool located) {
  const auto order = in_order(samples);
  if (explains_all({}, order)) return {};  // Too small an error to tell mistakes apart.
  std::vector<const MistakeRow*> rows;
  for (const MistakeRow& row : kMistakes) {
    if (can_be_made(row, samples.front(), located)) rows.push_back(&row);
  }
  std::vector<Diagnosis> found;
  for (const MistakeRow* row : rows) {
    if (explains_all(with(*row), order)) found.push_back({row->id, row->message, "", row->more});
  }
  for (std::size_t a = 0; a < rows.size() && found.empty(); ++a) {
    for (std::size_t b = a + 1; b < rows.size() && found.empty(); ++b) {
      if (!explains_all(with(*rows[a]) | with(*rows[b]), order)) continue;
      found.push_back({rows[a]->id, rows[a]->message, "", rows[a]->more});
      found.push_back({rows[b]->id, rows[b]->message, "", rows[b]->more});
    }
  }
  return found;
}

}  // namespace cuflash::exercises
