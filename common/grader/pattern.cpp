#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "difference.h"
#include "harness/convert.h"
#include "values.h"

namespace cuflash::exercises {

bool poison(float value, DType dtype) {
  const std::byte ones[4] = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
  float untouched = 0;
  harness::decode(dtype, ones, 1, &untouched);
  return std::memcmp(&value, &untouched, sizeof(value)) == 0;
}

namespace {

// The wrong elements of one tensor.
struct Wrong {
  std::set<int> heads, rows, columns;
  int count = 0, unwritten = 0, zeros = 0;
  int far_below = 0;      // far below 0, but finite, where -inf is right
  std::string first;      // "O[head 0, row 3, column 1] is 0.5 instead of 0.25"
  std::size_t place = 0;  // of the first in the tensor
  int all = 0;            // elements of the tensor
};

Wrong wrong_elements(const harness::ReferenceTensor& want, const std::vector<float>& got,
                     DType dtype) {
  Wrong wrong;
  wrong.all = static_cast<int>(got.size());
  for (std::size_t n = 0; n < got.size(); ++n) {
    const double value = want.values[n % want.values.size()];
    const bool ok = got[n] == value || std::abs(got[n] - value) <= want.limit;
    if (ok) continue;
    const int column = n % want.width, row = n / want.width % want.seq;
    const int head = n / want.width / want.seq % want.heads;
    wrong.heads.insert(head), wrong.rows.insert(row), wrong.columns.insert(column);
    wrong.unwritten += poison(got[n], dtype);
    wrong.zeros += got[n] == 0;
    wrong.far_below += std::isinf(value) && std::isfinite(got[n]) && got[n] < -1000;
    if (wrong.count++ > 0) continue;
    wrong.place = n;
    wrong.first = want.name + "[head " + std::to_string(head) + ", row " + std::to_string(row) +
                  (want.width > 1 ? ", column " + std::to_string(column) : "") + "] is " +
                  instead_of(got[n], value);
  }
  return wrong;
}

// "rows 32 to 63", "every row", "17 of 64 rows (3, 7, 11, …)"; which tile, where it is just one.
std::string described(const std::set<int>& of, int all, const std::string& one, int tile,
                      const char* tile_name) {
  if (static_cast<int>(of.size()) == all) return "every " + one;
  const int first = *of.begin(), last = *of.rbegin();
  std::string text;
  if (of.size() == 1) {
    text = one + ' ' + std::to_string(first);
  } else if (last - first + 1 == static_cast<int>(of.size())) {
    text = one + "s " + std::to_string(first) + " to " + std::to_string(last);
  } else {
    text = std::to_string(of.size()) + " of " + std::to_string(all) + ' ' + one + "s (" +
           some_of(of) + ')';
  }
  if (tile > 0 && first / tile == last / tile) {
    text += std::string(" (") + tile_name + ' ' + std::to_string(first / tile) + ')';
  }
  return text;
}

std::string place(const harness::ReferenceTensor& tensor, const Wrong& wrong, const Sample& s) {
  const bool key = tensor.name == "dK" || tensor.name == "dV";
  const int tile = s.pass == CUFLASH_BACKWARD || !key ? s.walk.block_q : s.walk.block_kv;
  std::string text = described(wrong.rows, tensor.seq, "row", tile, key ? "KV tile" : "Q tile") +
                     " of " + described(wrong.heads, tensor.heads, "head", 0, "");
  if (tensor.width > 1) {
    text += ", " + described(wrong.columns, tensor.width, "column", 0, "");
  }
  return text;
}

bool is_wrong(const Sample& s, const std::string& tensor) {
  for (const harness::TensorAccuracy& check : s.run().accuracy.tensors) {
    if (check.name == tensor) return !check.ok;
  }
  return false;
}

// What the outputs that are right tell about those that are not.
std::string cleared(const std::set<std::string>& wrong, const Sample& s) {
  const auto has = [&](const char* name) { return wrong.count(name) > 0; };
  if (s.pass == CUFLASH_FORWARD) {
    if (!has("LSE")) {
      return s.whole_matrices
                 ? "LSE is right, so the scores and the mask are: look at what comes after, P, its "
                   "division by the sum, and O = P V."
                 : "LSE is right, so the scores, the mask, the maximum and the sum are: look at "
                   "what comes after, P V, the rescaling of O, the division.";
    }
    if (!has("O")) return "O is right, so the softmax is: look at LSE = max + log(sum).";
    return "";
  }
  if (!s.one_ds) {
    if (!has("dQ")) return "dQ is right, and has a kernel of its own: look at that of dK and dV.";
    if (!has("dK") && !has("dV")) {
      return "dK and dV are right, but another kernel computes them: look at that of dQ, which "
             "computes P and dS anew.";
    }
    return "";
  }
  if (!has("dV") && has("dK") && has("dQ")) return "dV is right, so P is: look at dS.";
  if (!has("dQ") && has("dK")) return "dQ is right, so dS is: look at what is summed into dK.";
  if (!has("dQ") && !has("dK")) return "dQ and dK are right, so P and dS are: look at dV.";
  if (!has("dK") && !has("dV")) return "dK and dV are right, so dS is: look at dQ.";
  return "";
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Pattern pattern(const std::vector<Sample>& samples, bool never_stored) {
  const auto bad = [](const Sample& s) { return !s.right(); };
  const auto first = std::find_if(samples.begin(), samples.end(), bad);
  std::set<std::string> names;
  for (const Sample& s : samples) {
    for (const harness::TensorAccuracy& check : s.run().accuracy.tensors) {
      if (!check.ok) names.insert(check.name);
    }
  }
  const Trait* trait = distinguishing_trait(samples, bad);
  Pattern found;
  found.id = trait == nullptr ? "wrong-values" : std::string("wrong-") + trait->id;
  found.headline = joined(names) + (names.size() > 1 ? " are" : " is") + " wrong " +
                   where_bad(samples, bad) + ".";
  std::size_t untouched = 0;  // outputs
  for (const harness::ReferenceTensor& tensor : first->want->tensors) {
    if (!is_wrong(*first, tensor.name)) continue;
    const DType dtype = tensor.name == "LSE" ? CUFLASH_F32 : first->problem.dtype;
    const Wrong wrong = wrong_elements(tensor, first->run().outputs.tensors.at(tensor.name), dtype);
    const bool unwritten = never_stored && wrong.unwritten == wrong.count;
    found.places += first->name + ": " + place(tensor, wrong, *first) + " of " + tensor.name +
                    (unwritten                    ? " is never written"
                     : wrong.zeros == wrong.count ? " is 0 and should not be"
                                                  : "; " + wrong.first) +
                    '\n';
    if (unwritten) found.id = kNeverWritten;
    // In each output the same rows are as they were, and others are not.
    const std::size_t row = wrong.place / tensor.width, head = row / tensor.seq;
    const std::string at = "row " + std::to_string(row % tensor.seq) + " of head " +
                           std::to_string(head % tensor.heads) + " in batch " +
                           std::to_string(head / tensor.heads);
    const bool skips = wrong.unwritten == wrong.count && wrong.count < wrong.all;
    untouched += skips && (untouched == 0 || at == found.untouched);
    found.untouched = at;
    if (wrong.far_below < wrong.count) continue;
    found.id = kMaskedIsFinite;
    found.hint =
        " No sum of probabilities has such a logarithm: it is a masked score, finite where it must "
        "be -INFINITY. A row that sees no key then weighs all hidden keys alike, and a visible key "
        "whose score is lower still loses to them.";
  }
  if (untouched != first->want->tensors.size()) found.untouched = "";
  if (found.id == kMaskedIsFinite || found.id == kNeverWritten) return found;
  const std::string hint = cleared(names, *first);
  if (!hint.empty()) found.hint = ' ' + hint;
  if (trait != nullptr) {
    const bool other = first->whole_matrices && trait->advice_whole != nullptr;
    found.hint += std::string(" ") + (other ? trait->advice_whole : trait->advice);
  }
  return found;
}

}  // namespace cuflash::exercises
