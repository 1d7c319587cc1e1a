// What a stage needs beside its tensors: how it grows, and that it is all.
#ifndef CUFLASH_TESTS_STAGES_MEMORY_TEST_H_
#define CUFLASH_TESTS_STAGES_MEMORY_TEST_H_

#include "cuflash/stage.h"

namespace cuflash::tests {

// The first rung that keeps no matrix of scores has this number. The rungs before it do, and a
// stage of this checkout's own (90 and above) may.
inline constexpr int kFirstLinearStage = 3;
inline constexpr int kFirstOwnStage = 90;

// The number in a stage's name: 1 for "01_naive".
int stage_number(const Stage& stage);

// Twice the lengths need at most twice the workspace, up to a million tokens.
void memory_is_linear(const Stage& stage, Pass pass);
// Twice the lengths need about four times the workspace. A stage that no longer does says so here.
void memory_is_quadratic(const Stage& stage, Pass pass);

// The problem that the next one calls.
Problem allocation_problem();
// A call of the public API gets by on the workspace that the stage declares.
void allocates_nothing_else(const Stage& stage, Pass pass);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_MEMORY_TEST_H_
