// Many threads call at once, each on its own streams: every call computes the same bits as when it
// runs alone.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuflash/workload.h"
#include "harness/owners.h"
#include "harness/reference_outputs.h"
#include "support/api_call.h"
#include "support/api_example.h"
#include "support/expect.h"

namespace cuflash {
namespace {

constexpr int kThreads = 8, kStreams = 4;  // streams of each thread
// The simulator runs one launch at a time, thread by thread: this tests its lock, not concurrent
// kernels.
constexpr int kRounds = simt::kSimulated ? 1 : 10;
const std::vector<const char*> kProblems =
    simt::kSimulated
        ? std::vector<const char*>{"b1_h2x1_q3k5_d32_f32_causal", "b1_h1_q4k2_d64_f16"}
        : std::vector<const char*>{"b1_h2x1_q300k517_d32_f32_causal", "b2_h4_q130k77_d64_f16",
                                   "b1_h3_q257k257_d128_bf16_causal"};

// One pass of one problem by one stage, and its outputs when it runs alone.
struct Job {
  std::size_t call;  // its place in calls_for()'s list
  const char* stage;
  harness::Outputs alone;
};

// A pass of a problem with its inputs.
struct Work {
  Pass pass;
  Problem problem;
  std::shared_ptr<const harness::ReferenceOutputs> expected;
};

std::vector<Work> all_work() {
  std::vector<Work> list;
  for (const char* name : kProblems) {
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      const Problem problem = problem_of(name);
      list.push_back({pass, problem, harness::reference_outputs(pass, problem, {})});
    }
  }
  return list;
}

std::vector<ApiCall> calls_for(const std::vector<Work>& work) {
  std::vector<ApiCall> calls;
  for (const Work& w : work) calls.emplace_back(w.pass, w.problem, w.expected->inputs);
  return calls;
}

void expect_queued(const ApiCall& call, const char* stage, const harness::Stream& stream) {
  EXPECT_EQ(static_cast<int>(call.queue(stream.get(), stage)), 0)
      << shown(stage) << ": " << last_error_message();
}

// Makes every call alone, and checks that its results are right.
std::vector<Job> alone(const std::vector<Work>& work) {
  const std::vector<ApiCall> calls = calls_for(work);
  const harness::Stream stream;
  std::vector<Job> jobs;
  for (std::size_t n = 0; n < work.size(); ++n) {
    for (const char* stage : ways_to_run(work[n].pass, work[n].problem)) {
      calls[n].poison();
      expect_queued(calls[n], stage, stream);
      stream.synchronize();
      jobs.push_back({n, stage, calls[n].outputs()});
      SCOPED_TRACE(shown(stage));
      expect_right(jobs.back().alone, *work[n].expected);
    }
  }
  return jobs;
}

// A stream of a thread, and tensors that no other stream uses.
struct Lane {
  explicit Lane(const std::vector<Work>& work) : calls(calls_for(work)) {}
  harness::Stream stream{cudaStreamNonBlocking};
  std::vector<ApiCall> calls;
};

// One thread: each of its streams has a call of a different job in flight, from job `first` on.
void call_all(const std::vector<Work>& work, const std::vector<Job>& jobs, std::size_t first) {
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int n = 0; n < kStreams; ++n) lanes.push_back(std::make_unique<Lane>(work));
  const auto job = [&](std::size_t turn, std::size_t lane) -> const Job& {
    return jobs[(first + turn + 3 * lane) % jobs.size()];
  };
  for (std::size_t turn = 0; turn < kRounds * jobs.size(); ++turn) {
    for (std::size_t n = 0; n < lanes.size(); ++n) lanes[n]->calls[job(turn, n).call].poison();
    for (std::size_t n = 0; n < lanes.size(); ++n) {
      expect_queued(lanes[n]->calls[job(turn, n).call], job(turn, n).stage, lanes[n]->stream);
    }
    for (std::size_t n = 0; n < lanes.size(); ++n) {
      lanes[n]->stream.synchronize();
      const harness::Outputs got = lanes[n]->calls[job(turn, n).call].outputs();
      EXPECT_EQ(first_difference(job(turn, n).alone, got), "")
          << shown(job(turn, n).stage) << ", " << pass_name(work[job(turn, n).call].pass)
          << " pass, beside other threads";
    }
  }
}

class ManyThreads : public Api {};

TEST_F(ManyThreads, ComputeWhatEachCallComputesAlone) {
  const std::vector<Work> work = all_work();
  const std::vector<Job> jobs = alone(work);
  std::vector<std::thread> threads;
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] { call_all(work, jobs, 5 * static_cast<std::size_t>(n)); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cuflash
