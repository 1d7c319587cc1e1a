// The problems that every stage is tested with, by intent.
#ifndef CUFLASH_TESTS_STAGES_PROBLEMS_H_
#define CUFLASH_TESTS_STAGES_PROBLEMS_H_

#include <string>
#include <vector>

#include "harness/test_case.h"
#include "harness/traffic.h"

namespace cuflash::tests {

struct TestProblem {
  std::string intent;  // why it is in the table
  harness::TestCase c;
};

// For both backends: small enough for the CPU simulator.
std::vector<TestProblem> test_problems();
// For a pass with this tile, problems like the one given, of which an edge of the mask lies at an
// edge of a tile or one row beside it.
std::vector<TestProblem> edge_problems(Pass pass, const harness::Tile& tile, const Problem& like);
// For GPUs only.
std::vector<TestProblem> large_problems();
// A few problems of the same kinds, with lengths up to 300: compute-sanitizer is slow.
std::vector<TestProblem> sanitizer_problems();

// The case with this name. Throws if it is not one.
harness::TestCase case_of(const std::string& name);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_PROBLEMS_H_
