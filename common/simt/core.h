// Inside the machine: the running block, its threads, and the one object that holds everything.
#ifndef CUFLASH_SIMT_CORE_H_
#define CUFLASH_SIMT_CORE_H_

#include <cuda_runtime.h>

#include <exception>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "simt/fiber.h"
#include "simt/launch.h"
#include "simt/machine.h"
#include "simt/memory.h"
#include "simt/trace.h"

namespace cuflash::simt {

// Limits of the modelled device, that of compute capability 8.0.
constexpr unsigned kMaxThreadsPerBlock = 1024;
constexpr std::size_t kDefaultSharedBytes = 48 * 1024;
constexpr std::size_t kMaxSharedBytes = 163 * 1024;

// One CUDA thread of the running block.
struct Thread {
  enum class State { kReady, kAtBarrier, kInWarpCall, kExited };

  Fiber fiber;
  std::uintptr_t stack = 0;  // lowest address of its stack
  int index = 0;             // within the block
  uint3 id{};
  State state = State::kReady;
  LaneTrace trace;

  // Where it waits, and what it brought to a warp-wide operation.
  std::uintptr_t wait_address = 0;
  WarpCall call{};
  std::uint64_t result = 0;
  // synced[l]: what lane l of the same warp did before this epoch happened before what comes now.
  std::uint64_t synced[32] = {};

  int lane() const { return index % 32; }
  int warp() const { return index / 32; }
};

// Findings, those that are alike folded into one.
class Findings {
 public:
  using Key = std::vector<std::uint64_t>;
  // Counts one more of `key`; true if it is the first, which then must be described.
  bool count(FindingKind kind, const Key& key);
  void describe(Finding finding);
  std::vector<Finding> take();

 private:
  std::map<std::pair<FindingKind, Key>, std::size_t> known_;
  std::vector<Finding> list_;
};

class Core {
 public:
  // Runs a whole launch. Returns the error that the CUDA runtime would report.
  cudaError_t run(const Launch& launch);

  // Lets a kernel ask for more dynamic shared memory than kDefaultSharedBytes.
  void raise_shared_limit(std::uintptr_t kernel, std::size_t bytes) {
    shared_limit_[kernel] = bytes;
  }

  // Called by running threads.
  void barrier(std::uintptr_t return_address);
  std::uint64_t warp_call(const WarpCall& call, std::uintptr_t return_address);
  unsigned active_lanes() const;
  void access(std::uintptr_t address, std::size_t size, AccessKind kind,
              std::uintptr_t return_address);
  const Launch* launch() const { return launch_; }
  uint3 block_index() const { return block_index_; }

  GlobalMemory global;
  Sites sites;
  Trace trace{sites};
  Findings findings;
  Schedule schedule;
  std::mutex mutex;  // one launch, allocation or copy at a time
  cudaError_t last_error = cudaSuccess;

 private:
  // block.cpp: scheduling
  cudaError_t check_limits(const Launch& launch);
  void run_block(std::uint64_t linear_block);
  void resume(Thread& thread);
  void suspend(Thread& thread, Thread::State state, std::uintptr_t return_address);
  void release_barrier();
  void finish_warp_call(Thread& last);
  void report_stuck();
  void flush_warp(int warp, unsigned lane_mask);
  static void thread_entry(void* core);
  std::vector<int> ordered(std::size_t count);

  // access.cpp: checking
  void check_region(Region& region, std::uintptr_t address, std::size_t size, AccessKind kind,
                    std::uint16_t site);
  bool happens_before(Stamp earlier, const Region& region) const;
  bool is_mapped(std::uintptr_t address);
  [[noreturn]] void kill_launch();

  // report.cpp: findings in words
  void report_race(const Region& region, std::uintptr_t address, Stamp earlier, std::uint16_t site);
  void report_access(FindingKind kind, const Region* region, std::uintptr_t address,
                     std::uint16_t site, const std::string& what);
  void report_block(FindingKind kind, std::uintptr_t where, const std::string& title,
                    const std::string& body);
  std::string element_name(const Region* region, std::uintptr_t address, std::size_t size);
  std::string describe_access(int thread, std::uint64_t block, int site) const;
  std::string heading(const std::string& title, const std::string& element) const;
  std::uint64_t block_of(Stamp stamp) const;
  const std::string& kernel_name();

  StackPool stacks_;
  SharedMemory shared_;
  std::vector<Thread> threads_;
  std::mt19937_64 random_;

  const Launch* launch_ = nullptr;
  uint3 block_index_{};
  std::uint64_t linear_block_ = 0;
  bool killed_ = false;
  std::exception_ptr exception_;
  std::map<std::uintptr_t, std::string> kernel_names_;
  std::map<std::uintptr_t, std::size_t> shared_limit_;
  std::unordered_set<std::uintptr_t> mapped_pages_;

  // Epochs: every launch, block, barrier and warp-wide event begins a new one.
  std::uint64_t epoch_ = 1;
  std::uint64_t launch_epoch_ = 0;
  std::uint64_t block_epoch_ = 0;
  std::uint64_t barrier_epoch_ = 0;
  std::vector<std::uint64_t> warp_epoch_;  // by warp: the last event of all its lanes
  std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks_run_;  // first epoch, block
};

// The machine of this process. It is made before main() and never destroyed, so that host objects
// may outlive any order.
extern Core& core;

// The thread that runs now; null on the host.
extern thread_local Thread* current_thread __attribute__((tls_model("initial-exec")));

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_CORE_H_
