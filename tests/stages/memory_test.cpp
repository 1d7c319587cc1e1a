#include "memory_test.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cuflash/workload.h"
#include "harness/owners.h"
#include "problems.h"

namespace cuflash::tests {
namespace {

using harness::check;

// A problem, and the same with twice the lengths.
struct Doubling {
  Problem once, twice;
};

std::vector<Doubling> doublings(const Stage& stage) {
  std::vector<Doubling> all;
  for (const char* name : {"b1_h1_q1024k1024_d64", "b2_h8x2_q4096k2048_d128_causal",
                           "b1_h4_q1000k3000_d32", "b1_h1_q524288k524288_d64_causal"}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      if (!stage.dtypes.has(dtype)) continue;
      Problem once;
      once.dtype = dtype;
      if (!parse_problem(name, once)) throw std::logic_error(name);
      Problem twice = once;
      twice.seq_q *= 2;
      twice.seq_kv *= 2;
      all.push_back({once, twice});
    }
  }
  return all;
}

// One call of the public API without a workspace, its tensors in memory of their own.
class Call {
 public:
  Call(const Stage& stage, Pass pass, const Problem& p) : stage_(stage), pass_(pass), problem_(p) {
    if (pass == Pass::kForward) {
      forward_ = {q(), kv(), kv(), q(), lse(), nullptr};
    } else {
      backward_ = {q(), kv(), kv(), q(), q(), q(), kv(), kv(), lse(), true, nullptr};
    }
  }

  // Runs to its end.
  FlashAttentionError run() {
    const FlashAttentionError error =
        pass_ == Pass::kForward ? cuflash::forward(problem_, forward_, nullptr, stage_.name)
                                : cuflash::backward(problem_, backward_, nullptr, stage_.name);
    check(cudaDeviceSynchronize(), "the kernels");
    return error;
  }

 private:
  Tensor q() { return tensor(problem_.heads_q, problem_.seq_q); }
  Tensor kv() { return tensor(problem_.heads_kv, problem_.seq_kv); }
  Tensor tensor(int heads, int seq) {
    const std::size_t elements = std::size_t(problem_.batch) * heads * seq * problem_.head_dim;
    void* data = zeros(elements * element_bytes(problem_.dtype));
    return contiguous(data, heads, seq, problem_.head_dim);
  }
  float* lse() {
    const std::size_t rows = std::size_t(problem_.batch) * problem_.heads_q * problem_.seq_q;
    return static_cast<float*>(zeros(rows * sizeof(float)));
  }
  void* zeros(std::size_t bytes) {
    buffers_.emplace_back(bytes);
    check(cudaMemset(buffers_.back().data(), 0, bytes), "cudaMemset");
    return buffers_.back().data();
  }

  const Stage& stage_;
  Pass pass_;
  Problem problem_;
  std::vector<harness::DeviceBuffer> buffers_;
  Forward forward_;
  Backward backward_;
};

#ifdef CUFLASH_SIMT

constexpr const char* kProblem = "b1_h2_q96k96_d64_f16";

// The most memory that the machine gives out, for as long as this lives.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes) {
    std::size_t free = 0;
    check(cudaMemGetInfo(&free, &before_), "cudaMemGetInfo");
    simt::set_memory_limit(bytes);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() { simt::set_memory_limit(before_); }

 private:
  std::size_t before_ = 0;
};

void expect_no_more_than(std::size_t workspace, Call& call) {
  const std::size_t tensors = simt::memory_in_use();
  {
    const MemoryLimit limit(tensors + workspace);
    EXPECT_EQ(call.run(), FlashAttentionError::SUCCESS) << last_error_message();
  }
  EXPECT_EQ(simt::memory_in_use(), tensors) << "memory is left behind";
  if (workspace == 0) return;
  const MemoryLimit limit(tensors + workspace - 1);
  EXPECT_EQ(call.run(), FlashAttentionError::OUT_OF_MEMORY) << "this test measures nothing";
}

#else

constexpr const char* kProblem = "b1_h1_q32768k32768_d64_f16";

// The device's memory, and that of the pool from which the API takes workspaces.
class Memory {
 public:
  Memory() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetDefaultMemPool(&pool_, device), "cudaDeviceGetDefaultMemPool");
  }
  void give_back() const { check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo"); }
  // From now on used_high() is the most since now.
  void reset_high() const {
    std::uint64_t zero = 0;
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &zero),
          "cudaMemPoolSetAttribute");
  }
  std::size_t used() const { return attribute(cudaMemPoolAttrUsedMemCurrent); }
  std::size_t used_high() const { return attribute(cudaMemPoolAttrUsedMemHigh); }
  // Bytes of the device that are taken, by whatever but the pool.
  std::size_t taken_elsewhere() const {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return total - free - attribute(cudaMemPoolAttrReservedMemCurrent);
  }

 private:
  std::size_t attribute(cudaMemPoolAttr name) const {
    std::uint64_t value = 0;
    check(cudaMemPoolGetAttribute(pool_, name, &value), "cudaMemPoolGetAttribute");
    return value;
  }
  cudaMemPool_t pool_ = nullptr;
};

void expect_no_more_than(std::size_t workspace, Call& call) {
  constexpr std::size_t kSlack = std::size_t{2} << 20;  // The driver hands out pages of 2 MB.
  // The first call loads the kernels, which takes memory too.
  ASSERT_EQ(call.run(), FlashAttentionError::SUCCESS) << last_error_message();
  const Memory memory;
  memory.give_back();
  memory.reset_high();
  const std::size_t used = memory.used(), elsewhere = memory.taken_elsewhere();
  EXPECT_EQ(call.run(), FlashAttentionError::SUCCESS) << last_error_message();
  EXPECT_LE(memory.used_high(), used + workspace + kSlack) << "the workspace is larger than stated";
  EXPECT_EQ(memory.used(), used) << "memory is left behind";
  EXPECT_LE(memory.taken_elsewhere(), elsewhere + kSlack)
      << "memory was taken beside the workspace";
}

#endif

}  // namespace

int stage_number(const Stage& stage) { return std::atoi(stage.name); }

void memory_is_linear(const Stage& stage, Pass pass) {
  for (const auto& [once, twice] : doublings(stage)) {
    SCOPED_TRACE(problem_name(once));
    EXPECT_LE(stage.workspace_bytes(pass, twice), 2 * stage.workspace_bytes(pass, once));
  }
}

void memory_is_quadratic(const Stage& stage, Pass pass) {
  for (const auto& [once, twice] : doublings(stage)) {
    SCOPED_TRACE(problem_name(once));
    EXPECT_GT(stage.workspace_bytes(pass, twice), 3 * stage.workspace_bytes(pass, once))
        << "no longer keeps the scores? Then kFirstLinearStage is no longer right";
  }
}

void allocates_nothing_else(const Stage& stage, Pass pass) {
  const Problem problem = case_of(kProblem).problem;
  const Support support = supports(stage, pass, problem, current_device());
  if (!support) GTEST_SKIP() << support.reason;
  try {
    Call call(stage, pass, problem);
    expect_no_more_than(stage.workspace_bytes(pass, problem), call);
  } catch (const harness::CudaError& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
    GTEST_SKIP() << "This device is too small: " << error.what();
  }
}

}  // namespace cuflash::tests
