// Calls leak no device memory, and no host memory that grows with their number.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "cuflash/flash_attention.h"
#include "harness/owners.h"
#include "support/api_call.h"
#include "support/api_example.h"
#include "support/default_pool.h"

namespace cuflash {
namespace {

constexpr int kCalls = 10000, kWarm = 1000;
// The growth of host memory that is allowed between call kWarm and call kCalls, bytes. The CPU
// simulator's memory was seen to grow by 32 KiB, so a leak of 120 bytes per call is detected there.
// A driver's memory grows in larger steps.
constexpr std::size_t kHostGrowth = std::size_t{simt::kSimulated ? 1 : 8} << 20;

// Host memory of this process that is in use, bytes.
std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Device memory in use once all calls have ended, bytes, without the memory that the pool of
// workspaces keeps for later.
std::size_t device_bytes() {
  harness::check(cudaDeviceSynchronize(), "the kernels");
  const DefaultPool pool;
  pool.give_back();
  EXPECT_EQ(pool.used(), 0u) << "a workspace was not freed";
  return pool.taken_elsewhere();
}

class Caller {
 public:
  // Call number n: both passes, with the library's workspace and without, and refused calls.
  void call(int n) const {
    Problem junk = problem_;
    junk.head_dim = 31;
    switch (n % 6) {
      case 0:
        return expect(0, forward_.queue(nullptr, "01_naive"));
      case 1:
        return expect(CUFLASH_UNKNOWN_STAGE, forward_.queue(nullptr, "99_magic"));
      case 2:
        return expect(0, backward_.queue(nullptr, "01_naive"));
      case 3:
        return expect(CUFLASH_UNSUPPORTED_HEAD_DIM, forward(junk, {}));
      case 4:
        return expect(0, forward_.queue(nullptr, nullptr));
      case 5:
        return expect(0, backward_.queue(nullptr, nullptr));
    }
  }

 private:
  static void expect(int error, FlashAttentionError returned) {
    ASSERT_EQ(static_cast<int>(returned), error) << last_error_message();
  }

  Problem problem_ = problem_of("b1_h1_q1k1_d32_f32");
  ApiCall forward_{CUFLASH_FORWARD, problem_, zeros(problem_)};
  ApiCall backward_{CUFLASH_BACKWARD, problem_, zeros(problem_)};
};

class Leak : public Api {};

TEST_F(Leak, TenThousandCallsKeepNothing) {
  const Caller caller;
  std::size_t device = 0, host = 0;
  for (int n = 0; n < kCalls && !HasFatalFailure(); ++n) {
    if (n == kWarm) {  // By now kernels are loaded and the runtime's own lists have grown.
      device = device_bytes();
      host = resident_bytes();
    }
    caller.call(n);
  }
  const std::size_t device_after = device_bytes(), host_after = resident_bytes();
  EXPECT_EQ(device_after, device) << "the calls have not freed their device memory";
#ifndef __SANITIZE_ADDRESS__  // AddressSanitizer keeps freed memory
  EXPECT_LT(host_after, host + kHostGrowth) << "the calls have not freed their host memory";
#endif
  RecordProperty("host_bytes_grown", std::to_string(std::int64_t(host_after) - std::int64_t(host)));
}

// Refused by the stage, after the library has got a workspace: a block for each of 2^32 rows.
TEST_F(Leak, AStageThatFailsLeavesNoWorkspace) {
  if (!simt::kSimulated) GTEST_SKIP() << "That takes 16 GiB of device memory.";
  Problem p;
  p.batch = 1 << 20;
  p.heads_q = p.heads_kv = 1 << 12;
  p.seq_q = p.seq_kv = 1;
  p.head_dim = 128;
  p.dtype = CUFLASH_F16;
  std::byte nothing[16];  // the address that all tensors get
  const Tensor t = contiguous(nothing, p.heads_q, 1, p.head_dim);
  const Backward args(t, t, t, t, t, t, t, t, reinterpret_cast<float*>(nothing));
  const std::size_t before = simt::memory_in_use();
  EXPECT_EQ(backward(p, args, nullptr, "04_register_tiles"), FlashAttentionError::SIZE_OVERFLOW);
  EXPECT_EQ(last_error_message(),
            "04_register_tiles, backward pass: " +
                std::string(get_error_string(FlashAttentionError::SIZE_OVERFLOW)));
  EXPECT_EQ(simt::memory_in_use(), before);
}

}  // namespace
}  // namespace cuflash
