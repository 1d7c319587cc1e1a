// The problems that every stage is tried on, by intent.
#ifndef CUFLASH_TESTS_STAGES_PROBLEMS_H_
#define CUFLASH_TESTS_STAGES_PROBLEMS_H_

#include <string>
#include <vector>

#include "cuflash/problem.h"
#include "harness/call.h"
#include "harness/inputs.h"

namespace cuflash::tests {

struct TestProblem {
  std::string intent;  // what it is in the table for
  Problem problem;
  harness::InputSource source;
  harness::Layout layout = harness::Layout::kBHSD;

  // The problem's name, then the inputs and the layout where they are not the usual ones.
  std::string name() const;
};

// For both backends: small enough for the CPU machine.
std::vector<TestProblem> test_problems();
// For GPUs only.
std::vector<TestProblem> large_problems();
// A few of the kinds above with lengths up to 300, for compute-sanitizer, which is slow.
std::vector<TestProblem> sanitizer_problems();

// The problem with this name. Throws if it is not one.
Problem problem_of(const std::string& name);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_PROBLEMS_H_
