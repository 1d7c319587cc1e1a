// Tests of a process's first call.
#ifndef CUFLASH_TESTS_GPU_COLD_H_
#define CUFLASH_TESTS_GPU_COLD_H_

#include <gtest/gtest.h>

namespace cuflash {

// Each needs its own process, which ctest provides; otherwise it is skipped.
inline bool is_alone() { return testing::UnitTest::GetInstance()->test_to_run_count() == 1; }
inline constexpr char kNotAlone[] =
    "It needs a process of its own: run ctest, or give --gtest_filter its name.";

}  // namespace cuflash

#endif  // CUFLASH_TESTS_GPU_COLD_H_
