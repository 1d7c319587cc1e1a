// Random problems, for what no table of problems lists.
#ifndef CUFLASH_TESTS_STAGES_RANDOM_TEST_H_
#define CUFLASH_TESTS_STAGES_RANDOM_TEST_H_

#include "cuflash/stage.h"

namespace cuflash::tests {

// The results of many small random problems are within their limits, and the same in every run:
// 1,000 problems on a GPU, fewer on the CPU simulator. They are the same in every run of the test
// unless CUFLASH_SEED in the environment is another number than 1.
void computes_random_problems(const Stage& stage, Pass pass);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_RANDOM_TEST_H_
