// Tests that the table of problems cannot express: extreme values and addresses, and work that a
// kernel must not do.
#ifndef CUFLASH_TESTS_STAGES_EXTREME_TEST_H_
#define CUFLASH_TESTS_STAGES_EXTREME_TEST_H_

#include "cuflash/stage.h"

namespace cuflash::tests {

// Forward, causal, with or without a window: every score of every row is far below any finite
// constant at which a maximum might start.
void scores_far_below_zero(const Stage& stage, Pass pass, const Problem& problem);

// Forward, several heads: infinite values of V in the first one reach no other.
void an_infinite_v_stays_in_its_head(const Stage& stage, Pass pass, const Problem& problem);

// Forward, one head: other queries in every eighth row, with scores 16 times as large, so that
// their maxima grow from tile to tile, leave the bits of all other rows as they are. Some of those
// grow moderately.
void a_row_does_not_depend_on_others(const Stage& stage, Pass pass, const Problem& problem);

// Backward, two keys: sums exceed the largest f16 before they are multiplied by the scale. dQ and
// dK do not exceed it.
void gradients_large_before_the_scale(const Stage& stage, Pass pass, const Problem& problem);

// Backward, no mask: every score is far below the 0 that a key past the last would have.
void gradients_of_scores_far_below_zero(const Stage& stage, Pass pass, const Problem& problem);

// One head with rows 2^29 elements apart: an offset inside a head needs 64 bits. On the CPU
// simulator only, in memory that is mapped and hardly touched.
void rows_far_apart(const Stage& stage, Pass pass, const Problem& problem);

// Forward, a window at the end of the most keys that a head may have: indices near 2^31.
void sees_the_end_of_the_longest_head(const Stage& stage, Pass pass, const Problem& problem);

// A problem of 2^32 heads, a grid of at least as many blocks, is refused. Nothing is launched.
void refuses_too_many_blocks(const Stage& stage, Pass pass, Problem problem);

// The largest shared memory of a launch is the amount that the stage declares. On the CPU simulator
// only.
void asks_for_the_declared_shared_memory(const Stage& stage, Pass pass, const Problem& problem);

// A window wider than the sequence hides nothing, and causes no work beyond the sequence. On the
// CPU simulator only.
void a_wide_window_costs_nothing(const Stage& stage, Pass pass, const Problem& problem);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_EXTREME_TEST_H_
