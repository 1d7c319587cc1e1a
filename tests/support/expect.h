// What tests expect of a call and of what it computes.
#ifndef CUFLASH_TESTS_SUPPORT_EXPECT_H_
#define CUFLASH_TESTS_SUPPORT_EXPECT_H_

#include <gtest/gtest.h>

#include "cuflash/flash_attention.h"
#include "harness/expected.h"
#include "harness/verify.h"

namespace cuflash {

// The call was queued.
inline void expect_success(FlashAttentionError error) {
  EXPECT_EQ(static_cast<int>(error), 0) << last_error_message();
  EXPECT_STREQ(last_error_message(), "");
}

// The outputs are within their limits of the oracle's.
inline void expect_right(const harness::Outputs& got, const harness::Expected& want) {
  const harness::Verdict verdict = verify(got, want);
  EXPECT_TRUE(verdict.ok()) << verdict.failures();
}

}  // namespace cuflash

#endif  // CUFLASH_TESTS_SUPPORT_EXPECT_H_
