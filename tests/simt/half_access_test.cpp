// A load or store of a 16-bit value, of a pair, or of 16 bytes of them is one access in the trace.
//
// Defines the hooks that instrumented code calls, and counts the calls. It is therefore a separate
// program, linked neither with a sanitizer's runtime nor with the simulator, which has its hooks.

#include "half_access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace {

std::vector<std::string> seen;

void record(const char* kind, std::size_t bytes) { seen.push_back(kind + std::to_string(bytes)); }

}  // namespace

extern "C" {
void __tsan_init() {}
#define CUFLASH_HOOKS(bytes)                                   \
  void __tsan_read##bytes(const void*) { record("R", bytes); } \
  void __tsan_write##bytes(const void*) { record("W", bytes); }
CUFLASH_HOOKS(1)
CUFLASH_HOOKS(2)
CUFLASH_HOOKS(4)
CUFLASH_HOOKS(8)
CUFLASH_HOOKS(16)
void __tsan_read_range(const void*, unsigned long bytes) { record("R range ", bytes); }
void __tsan_write_range(const void*, unsigned long bytes) { record("W range ", bytes); }
}

namespace {

TEST(SimtHalfAccess, OneAccessEach) {
  alignas(16) unsigned char in[64] = {};
  alignas(16) unsigned char out[64] = {};
  std::size_t count = 0;
  const AccessCase* const cases = access_cases(&count);
  ASSERT_GT(count, 0u);
  for (std::size_t i = 0; i < count; ++i) {
    seen.clear();
    cases[i].run(out, in);
    std::sort(seen.begin(), seen.end());
    std::string accesses;
    for (const std::string& access : seen) accesses += (accesses.empty() ? "" : " ") + access;
    EXPECT_EQ(accesses, cases[i].accesses) << cases[i].name;
  }
}

}  // namespace
