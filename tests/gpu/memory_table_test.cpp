// The table of memory, measured: what a call takes from the device besides its tensors.
#include "support/memory_table.h"

#include <gtest/gtest.h>

#include <string>

#include "large.h"
#include "support/api_call.h"
#include "support/default_pool.h"
#include "support/expect.h"

namespace cuflash {
namespace {

// The memory that the pool counts as used for one allocation of `bytes`: the pool rounds up.
std::size_t bytes_in_pool(std::size_t bytes) {
  if (bytes == 0) return 0;
  const DefaultPool pool;
  void* memory = nullptr;
  harness::check(cudaMallocAsync(&memory, bytes, nullptr), "cudaMallocAsync");
  const std::size_t used = pool.used();
  harness::check(cudaFreeAsync(memory, nullptr), "cudaFreeAsync");
  harness::check(cudaDeviceSynchronize(), "cudaFreeAsync");
  return used;
}

class MeasuredMemory : public Large {
 protected:
  // The most of the pool that one call uses.
  static std::size_t bytes_of_call(const ApiCall& call, const char* stage) {
    const DefaultPool pool;
    pool.give_back();
    pool.reset_high();
    EXPECT_EQ(pool.used(), 0u);
    expect_success(call.queue(nullptr, stage));
    finish();
    EXPECT_EQ(pool.used(), 0u) << "the workspace was not freed";
    return pool.used_high();
  }
};

// The pool rounds an allocation up, by at most a page of 2 MiB; a call uses just what one
// allocation of its workspace does.
TEST_F(MeasuredMemory, IsTheTable) {
  CUFLASH_NEED(40);
  constexpr std::size_t kPage = std::size_t{2} << 20;
  RecordProperty("pool_bytes_of_one_byte", std::to_string(bytes_in_pool(1)));
  for (const MemoryEntry& entry : memory_table()) {
    SCOPED_TRACE(entry_name(entry));
    const ApiCall call(entry.pass, entry.problem, zeros(entry.problem));
    const std::size_t used = bytes_of_call(call, entry.stage);
    EXPECT_EQ(used, bytes_in_pool(entry.bytes));
    EXPECT_GE(used, entry.bytes);
    EXPECT_LT(used, entry.bytes + kPage);
    RecordProperty(entry_name(entry), std::to_string(used));
  }
}

}  // namespace
}  // namespace cuflash
