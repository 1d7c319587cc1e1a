// Forward passes whose result is exact, so that it is compared bit for bit.
#ifndef CUFLASH_TESTS_STAGES_EXACT_TEST_H_
#define CUFLASH_TESTS_STAGES_EXACT_TEST_H_

#include "cuflash/stage.h"

namespace cuflash::tests {

// Each query has one key, somewhere among those that it sees, whose score exceeds all others by
// hundreds: P holds zeros and a one, and a row of O is a row of V.
void finds_one_key(const Stage& stage, Pass pass, Problem problem);

// Q is 0, so that all keys weigh the same, and V holds small integers. Rows that see a power of two
// of keys have a mean that is exact before it is rounded to the dtype.
void averages_equal_keys(const Stage& stage, Pass pass, const Problem& problem);

}  // namespace cuflash::tests

#endif  // CUFLASH_TESTS_STAGES_EXACT_TEST_H_
