// What tests expect of a call and of its results.
#ifndef CUFLASH_TESTS_SUPPORT_EXPECT_H_
#define CUFLASH_TESTS_SUPPORT_EXPECT_H_

#include <gtest/gtest.h>

#include "cuflash/flash_attention.h"
#include "harness/accuracy.h"
#include "harness/reference_outputs.h"

namespace cuflash {

// The call was queued.
inline void expect_success(FlashAttentionError error) {
  EXPECT_EQ(static_cast<int>(error), 0) << last_error_message();
  EXPECT_STREQ(last_error_message(), "");
}

// The outputs are within their limits of the oracle's.
inline void expect_right(const harness::Outputs& got, const harness::ReferenceOutputs& want) {
  const harness::Accuracy accuracy = check_accuracy(got, want);
  EXPECT_TRUE(accuracy.ok()) << accuracy.failures();
}

}  // namespace cuflash

#endif  // CUFLASH_TESTS_SUPPORT_EXPECT_H_
