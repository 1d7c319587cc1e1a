// The table of memory, as the library states it: quadratic for standard attention, linear or
// nothing for the library's own choice.
#include "support/memory_table.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "cuflash/flash_attention.h"
#include "support/api_example.h"

namespace cuflash {
namespace {

class MemoryTable : public Api {};

TEST_F(MemoryTable, IsWhatTheFormulasSay) {
  std::printf("%-30s %15s\n", "pass, stage, length", "bytes");
  for (const MemoryEntry& entry : memory_table()) {
    const std::string name = entry_name(entry);
    const std::size_t bytes = workspace_bytes(entry.pass, entry.problem, entry.stage);
    EXPECT_STREQ(last_error_message(), "") << name;
    EXPECT_EQ(bytes, entry.bytes) << name;
    std::printf("%-30s %15zu\n", name.c_str(), bytes);
    RecordProperty(name, std::to_string(bytes));
  }
}

}  // namespace
}  // namespace cuflash
