// The table of memory, as the library states it: quadratic for standard attention, linear or
// constant for the library's own choice.
#include "support/memory_table.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "cuflash/flash_attention.h"
#include "support/api_example.h"

namespace cuflash {
namespace {

// A forward call may have lengths. Then the library chooses 20_split_kv, whose partial results have
// two slots for each of at most 1,024 blocks: 16 rows of O, and of each row two numbers.
std::size_t stated_bytes(const MemoryEntry& entry) {
  const bool may_have_lengths = entry.pass == CUFLASH_FORWARD && entry.stage == nullptr;
  return may_have_lengths ? 4 * 2 * 1024 * 16 * (64 + 2) : entry.bytes;
}

class MemoryTable : public Api {};

TEST_F(MemoryTable, IsWhatTheFormulasSay) {
  std::printf("%-30s %15s\n", "pass, stage, length", "bytes");
  for (const MemoryEntry& entry : memory_table()) {
    const std::string name = entry_name(entry);
    const std::size_t bytes = workspace_bytes(entry.pass, entry.problem, entry.stage);
    EXPECT_STREQ(last_error_message(), "") << name;
    EXPECT_EQ(bytes, stated_bytes(entry)) << name;
    std::printf("%-30s %15zu\n", name.c_str(), bytes);
    RecordProperty(name, std::to_string(bytes));
  }
}

}  // namespace
}  // namespace cuflash
