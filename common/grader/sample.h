// One problem that an exercise was run on: what came out, what the simulator saw.
#ifndef CUFLASH_GRADER_SAMPLE_H_
#define CUFLASH_GRADER_SAMPLE_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness/reference_outputs.h"
#include "harness/stage_check.h"
#include "model.h"

namespace cuflash::exercises {

struct Sample {
  std::string name;
  Pass pass = CUFLASH_FORWARD;
  Problem problem;
  harness::InputKind input = harness::InputKind::kGaussian;
  harness::Layout layout = harness::Layout::kBHSD;
  Walk walk;
  std::shared_ptr<const harness::ReferenceOutputs> want;
  harness::StageCheck check;   // of the exercise
  simt::Counts counts, own;    // the exercise's and the stage's own
  std::string conflicts_line;  // where the exercise has most bank conflicts; empty if nowhere
  std::string conflicts_rows;  // and where the rows of the arrays of that line lie in the banks
  std::string loads_line;      // where it has most requests of shared memory
  bool conflicts_of_write = false;      // whether it writes there
  bool own_conflicts_of_write = false;  // whether the stage's own writes have any
  bool whole_matrices = false;  // S and P, dS: each in global memory, by a kernel of its own
  bool one_ds = false;          // P and dS are computed once, for all gradients

  // The run to look at: the first that is wrong, else the first.
  const harness::Run& run() const {
    const auto& runs = check.runs;
    const auto wrong = std::find_if(runs.begin(), runs.end(),
                                    [](const harness::Run& run) { return !run.right(); });
    return wrong == runs.end() ? runs.front() : *wrong;
  }
  bool right() const { return run().right(); }
};

// Multiply-adds of one of its products: how long a problem takes, and how much there is to look at.
inline double work_of(const Problem& p) {
  return double(p.batch) * p.heads_q * p.seq_q * p.seq_kv * p.head_dim;
}

// True if rows have several keys of ordinary scores.
inline bool is_ordinary(const Sample& s) {
  return s.input == harness::InputKind::kGaussian && s.problem.seq_kv > 8;
}

// The samples that are bad, the smallest first; before the others those that are ordinary.
template <class Bad>
std::vector<const Sample*> smallest_first(const std::vector<Sample>& samples, const Bad& bad) {
  const auto size = [](const Sample* s) {
    return work_of(s->problem) * (is_ordinary(*s) ? 1 : 1e6);
  };
  std::vector<const Sample*> found;
  for (const Sample& s : samples) {
    if (bad(s)) found.push_back(&s);
  }
  std::stable_sort(found.begin(), found.end(),
                   [&](const Sample* a, const Sample* b) { return size(a) < size(b); });
  return found;
}

// What is wrong, as a stable id and in words.
struct Diagnosis {
  std::string id, message;
  // Lines with numbers: of the simulator's report, or what is wrong where.
  std::string details = {};
  std::string more = {};  // what the stage has there; shown only to whom asks for it
  // What usually leads there, or what does here. It follows the message.
  std::string causes = {};
};

// "3, 7, 11, ...": the first three of some numbers.
template <class Numbers>
std::string some_of(const Numbers& numbers) {
  std::string text;
  int told = 0;
  for (const int n : numbers) {
    if (told++ < 3) text += (told == 1 ? "" : ", ") + std::to_string(n);
  }
  return told > 3 ? text + ", ..." : text;
}

// ---- What samples have in common ----------------------------------------------------------------

struct Trait {
  const char* id;
  const char* words;   // "those with ..."
  const char* advice;  // what a value that is wrong only there usually means
  bool (*has)(const Sample&);
  const char* advice_whole = nullptr;  // where Sample::whole_matrices, if it is another
};

const std::vector<Trait>& traits();

// The trait that tells the samples with `bad` from the others; null if all are bad or none fits.
template <class Bad>
const Trait* distinguishing_trait(const std::vector<Sample>& samples, const Bad& bad) {
  const Trait* best = nullptr;
  int fewest = static_cast<int>(samples.size());
  const auto right =
      std::count_if(samples.begin(), samples.end(), [&](const Sample& s) { return !bad(s); });
  for (const Trait& trait : traits()) {
    int innocent = 0, missed = 0;
    for (const Sample& sample : samples) {
      innocent += trait.has(sample) && !bad(sample);
      missed += !trait.has(sample) && bad(sample);
    }
    // A trait that more than a third of the right samples have, too, tells nothing.
    if (missed > 0 || innocent >= fewest || 3 * innocent > right) continue;
    const auto all = [&](const Sample& s) { return trait.has(s); };
    if (std::all_of(samples.begin(), samples.end(), all)) continue;
    best = &trait;
    fewest = innocent;
  }
  return best;
}

// "in 3 of 12 problems, those with grouped heads"
template <class Bad>
std::string where_bad(const std::vector<Sample>& samples, const Bad& bad) {
  const auto count = std::count_if(samples.begin(), samples.end(), bad);
  if (count == static_cast<std::ptrdiff_t>(samples.size())) return "in every problem";
  std::string text =
      "in " + std::to_string(count) + " of " + std::to_string(samples.size()) + " problems";
  const Trait* trait = distinguishing_trait(samples, bad);
  return trait == nullptr ? text : text + ", " + trait->words;
}

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_SAMPLE_H_
