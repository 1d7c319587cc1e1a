// The memory that a stage needs besides its tensors: how it grows, and that there is no other.
#ifndef CUFLASH_TESTS_STAGES_MEMORY_TEST_H_
#define CUFLASH_TESTS_STAGES_MEMORY_TEST_H_

#include "cuflash/stage.h"

namespace cuflash::tests {

// Twice the lengths need at most twice the workspace, up to a million tokens, or about four times
// as much if the pass declares that it keeps the scores.
void memory_grows_as_declared(const Stage& stage, Pass pass);

// The problem of allocates_nothing_else().
Problem allocation_problem();
// A call of the public API needs no more memory than the workspace that the stage declares.
void allocates_nothing_else(const Stage& stage, Pass pass);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_MEMORY_TEST_H_
