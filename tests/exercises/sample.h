// One problem that an exercise was run on: what came out, what the machine saw.
#ifndef CUFLASH_TESTS_EXERCISES_SAMPLE_H_
#define CUFLASH_TESTS_EXERCISES_SAMPLE_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness/verify.h"
#include "model.h"
#include "simt/machine.h"

namespace cuflash::exercises {

struct Sample {
  std::string name;  // the problem's name, and its inputs where they are not Gaussian
  Pass pass = Pass::kForward;
  Problem problem;
  harness::InputKind input = harness::InputKind::kGaussian;
  Walk walk;
  std::shared_ptr<const harness::Expected> want;
  harness::Outputs got;  // of the first schedule that gave a wrong result, else of the first
  harness::Verdict verdict;
  std::string error;  // a sentence if the call failed
  std::vector<simt::Finding> findings;
  simt::Counts counts, own_counts;  // the exercise's and the stage's own
  std::string busiest_line;         // the line with the most bank conflicts, or ""

  bool right() const { return verdict.ok(); }
};

// What is wrong, as a stable id and in words.
struct Diagnosis {
  std::string id, message;
  std::string details;  // the machine's report, or ""
};

// ---- What samples have in common ----------------------------------------------------------------

struct Trait {
  const char* id;
  const char* words;   // "those with ..."
  const char* advice;  // what a value that is wrong only there usually means
  bool (*has)(const Sample&);
};

// The trait that tells the samples with `bad` from the others; null if all are bad or none fits.
template <class Bad>
const Trait* distinguishing_trait(const std::vector<Sample>& samples, const Bad& bad);

const std::vector<Trait>& traits();

template <class Bad>
const Trait* distinguishing_trait(const std::vector<Sample>& samples, const Bad& bad) {
  const Trait* best = nullptr;
  int fewest = static_cast<int>(samples.size());
  for (const Trait& trait : traits()) {
    int innocent = 0, missed = 0;
    for (const Sample& sample : samples) {
      innocent += trait.has(sample) && !bad(sample);
      missed += !trait.has(sample) && bad(sample);
    }
    if (missed > 0 || innocent >= fewest) continue;
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

#endif  // CUFLASH_TESTS_EXERCISES_SAMPLE_H_
