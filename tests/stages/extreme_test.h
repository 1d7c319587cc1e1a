// What the table of problems cannot hold: values and addresses at the edges, and work that a kernel
// must not do.
#ifndef CUFLASH_TESTS_STAGES_EXTREME_TEST_H_
#define CUFLASH_TESTS_STAGES_EXTREME_TEST_H_

#include "cuflash/stage.h"

namespace cuflash::tests {

// Forward, causal, with or without a window: every score of every row is far below any constant
// that a maximum might start at.
void scores_far_below_zero(const Stage& stage, Pass pass, const Problem& problem);

// Backward, two keys: sums that are beyond the largest f16 until they are multiplied by the scale.
// dQ and dK are not.
void gradients_large_before_the_scale(const Stage& stage, Pass pass, const Problem& problem);

// One head with rows 2^29 elements apart: an offset inside a head needs 64 bits. On the CPU
// simulator only, in memory that is mapped and hardly touched.
void rows_far_apart(const Stage& stage, Pass pass, const Problem& problem);

// A problem of 2^32 heads, a grid of at least as many blocks, is refused. Nothing is launched.
void refuses_too_many_blocks(const Stage& stage, Pass pass, Problem problem);

// The largest shared memory that a launch asks for is what the stage declares. On the CPU simulator
// only.
void asks_for_the_declared_shared_memory(const Stage& stage, Pass pass, const Problem& problem);

// A window wider than the sequence hides nothing, and no work is done for what lies beyond it. On
// the CPU simulator only.
void a_wide_window_costs_nothing(const Stage& stage, Pass pass, const Problem& problem);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_EXTREME_TEST_H_
