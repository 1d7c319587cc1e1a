// What a stage needs beside its tensors: how it grows, and that it is all.
#ifndef CUFLASH_TESTS_STAGES_MEMORY_TEST_H_
#define CUFLASH_TESTS_STAGES_MEMORY_TEST_H_

#include "cuflash/stage.h"

namespace cuflash::tests {

// Twice the lengths need at most twice the workspace, up to a million tokens; about four times as
// much where the pass says that it keeps the scores.
void memory_grows_as_declared(const Stage& stage, Pass pass);

// The problem that the next one calls.
Problem allocation_problem();
// A call of the public API gets by on the workspace that the stage declares.
void allocates_nothing_else(const Stage& stage, Pass pass);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_MEMORY_TEST_H_
