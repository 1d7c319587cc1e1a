#include <gtest/gtest.h>

#include <vector>

#include "cuflash/flash_attention.h"
#include "cuflash/workload.h"
#include "harness/owners.h"
#include "stage_test.h"
#include "support/api_call.h"
#include "support/default_pool.h"
#include "support/memory_limit.h"

namespace cuflash::tests {
namespace {

using harness::check;

// A problem, and the same with twice the lengths.
struct Doubling {
  Problem once, twice;
};

// Lengths that have as many tiles as 09 has slices of dQ.
std::vector<Doubling> doublings(const PassFacts& facts) {
  std::vector<Doubling> all;
  for (const char* name : {"b1_h1_q2048k2048_d64", "b2_h8x2_q4096k2048_d128_causal",
                           "b1_h4_q1000k3000_d32", "b1_h1_q524288k524288_d64_causal"}) {
    for (const DType dtype : kDTypes) {
      if (!facts.dtypes.has(dtype)) continue;
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

// Makes a call that brings no workspace, and waits until the kernels have ended.
FlashAttentionError run(const ApiCall& call, const Stage& stage) {
  const FlashAttentionError error = call.queue(nullptr, stage.name);
  check(cudaDeviceSynchronize(), "the kernels");
  return error;
}

constexpr const char* kProblem =
    simt::kSimulated ? "b1_h2_q96k96_d64_f16" : "b1_h1_q32768k32768_d64_f16";

// With one byte less than the workspace needs, the simulator refuses the call.
void expect_no_more_on_the_simulator(std::size_t workspace, const ApiCall& call,
                                     const Stage& stage) {
  const std::size_t tensors = simt::memory_in_use();
  {
    const MemoryLimit limit(tensors + workspace);
    EXPECT_EQ(run(call, stage), FlashAttentionError::SUCCESS) << last_error_message();
  }
  EXPECT_EQ(simt::memory_in_use(), tensors) << "the call has not freed its memory";
  if (workspace == 0) return;
  const MemoryLimit limit(tensors + workspace - 1);
  EXPECT_EQ(run(call, stage), FlashAttentionError::OUT_OF_MEMORY) << "the limit has no effect";
}

void expect_no_more_on_the_gpu(std::size_t workspace, const ApiCall& call, const Stage& stage) {
  constexpr std::size_t kSlack = std::size_t{2} << 20;  // The driver hands out pages of 2 MB.
  // The first call loads the kernels, which takes memory too.
  ASSERT_EQ(run(call, stage), FlashAttentionError::SUCCESS) << last_error_message();
  const DefaultPool memory;
  memory.give_back();
  memory.reset_high();
  const std::size_t used = memory.used(), elsewhere = memory.taken_elsewhere();
  EXPECT_EQ(run(call, stage), FlashAttentionError::SUCCESS) << last_error_message();
  EXPECT_LE(memory.used_high(), used + workspace + kSlack)
      << "the call needs more memory than its workspace";
  EXPECT_EQ(memory.used(), used) << "the call has not freed its memory";
  EXPECT_LE(memory.taken_elsewhere(), elsewhere + kSlack) << "the call takes memory from elsewhere";
}

}  // namespace

void memory_grows_as_declared(const Stage& stage, Pass pass) {
  const PassFacts& facts = stage.facts(pass);
  for (const auto& [once, twice] : doublings(facts)) {
    SCOPED_TRACE(problem_name(once));
    if (facts.keeps_scores) {
      EXPECT_GT(facts.workspace_bytes(twice), 3 * facts.workspace_bytes(once));
    } else {
      EXPECT_LE(facts.workspace_bytes(twice), 2 * facts.workspace_bytes(once));
    }
  }
}

Problem allocation_problem() { return case_of(kProblem).problem; }

void allocates_nothing_else(const Stage& stage, Pass pass) {
  const Problem problem = allocation_problem();
  const Support support = supports(stage, pass, problem, current_device());
  if (!support) GTEST_SKIP() << support.reason;
  try {
    const ApiCall call(pass, problem, zeros(problem));
    const auto expect_no_more =
        simt::kSimulated ? expect_no_more_on_the_simulator : expect_no_more_on_the_gpu;
    expect_no_more(stage.facts(pass).workspace_bytes(problem), call, stage);
  } catch (const harness::CudaError& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
    GTEST_SKIP() << "This device has too little memory: " << error.what();
  }
}

}  // namespace cuflash::tests
