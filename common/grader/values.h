// Names what made values wrong: a classical mistake, or else the pattern of what is wrong.
#ifndef CUFLASH_GRADER_VALUES_H_
#define CUFLASH_GRADER_VALUES_H_

#include "sample.h"

namespace cuflash::exercises {

// The mistakes whose model gives what the exercise gave, on every problem. One mistake; if none
// fits, two at once. Empty if no pair fits. `located`: a product tells more of its fragments.
std::vector<Diagnosis> named_mistakes(const std::vector<Sample>& samples, bool located);

// True of what outputs hold before the call: bytes of ones, a NaN that no arithmetic makes.
bool poison(float value, DType dtype);

// The pattern of outputs that the kernel leaves as they were.
inline constexpr const char* kNeverWritten = "never-written";

// The pattern of masked scores that are not -INFINITY.
inline constexpr const char* kMaskedIsFinite = "masked-is-finite";

// Which terms of a score are missing, or counted more than once. In a problem of one key the LSE of
// a query is its score, and many queries tell the weight of each column. The id is empty if all
// terms are there, or if the scores are not such sums.
Diagnosis score_terms(const std::vector<Sample>& samples);

// Which problems, heads, rows and columns are wrong. The hint begins with a space.
struct Pattern {
  std::string id;
  std::string headline;   // what is wrong, and in which problems
  std::string hint;       // what that usually means
  std::string places;     // the wrong elements of the first wrong problem
  std::string untouched;  // the first row, where all wrong ones are as they were in each output
};
// `never_stored`: the kernel leaves an output as it was.
Pattern pattern(const std::vector<Sample>& samples, bool never_stored);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_VALUES_H_
