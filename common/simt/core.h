// The core of the simulator: the running block, its threads, and the object that holds all state.
#ifndef CUFLASH_SIMT_CORE_H_
#define CUFLASH_SIMT_CORE_H_

#include <cuda_runtime.h>

#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "simt/access_log.h"
#include "simt/block_recorder.h"
#include "simt/cp_async.h"
#include "simt/findings.h"
#include "simt/launch.h"
#include "simt/machine.h"
#include "simt/mbarrier.h"
#include "simt/memory.h"
#include "simt/named_barrier.h"
#include "simt/order.h"
#include "simt/request_counter.h"
#include "simt/tensor_copy.h"
#include "simt/tensor_store.h"
#include "simt/thread.h"
#include "simt/waits.h"
#include "simt/warp.h"
#include "simt/warpgroup.h"

namespace cuflash::simt {

// Limits of the modelled device, which has compute capability 9.0.
constexpr unsigned kMaxThreadsPerBlock = 1024;

class Core {
 public:
  // Runs a launch to its end. Returns the error that the CUDA runtime would report.
  cudaError_t run(const Launch& launch);

  // ---- The running block -----------------------------------------------------------------------

  // Returns the number of threads that arrived with `vote` set.
  int barrier(Thread& self, bool vote, std::uintptr_t return_address);
  void mark_tile(Thread& self, const char* name, int number);
  void suspend(Thread& thread, Thread::State state, std::uintptr_t return_address);
  [[noreturn]] void kill_launch();  // by the running thread
  // Counts the accesses that the warp's lanes have made.
  void flush_warp(int warp);
  Thread& thread(std::size_t index) { return threads_[index]; }
  int num_threads() const { return num_threads_; }
  int num_warps() const { return (num_threads_ + 31) / 32; }
  unsigned active_lanes(int warp) const;
  const Launch* launch() const { return launch_; }
  const std::string& kernel_name(std::uintptr_t kernel);
  bool in_block() const { return in_block_; }
  uint3 block_index() const { return block_index_; }
  std::uint64_t linear_block() const { return linear_block_; }
  int barriers_of_block() const {
    return static_cast<int>(events.barriers - barriers_before_block_);
  }

  // ---- Accesses: access_check.h, access_check.cpp ----------------------------------------------

  void on_access(std::size_t thread, std::uintptr_t address, std::size_t size, AccessKind kind,
                 std::uintptr_t return_address);
  // True if it is an access of shared memory.
  bool check_and_count(Thread& self, std::uintptr_t address, std::size_t size, std::uint16_t site);
  // Returns false if the access is not counted; sets `shared` otherwise.
  bool check(const Thread& self, std::uintptr_t address, std::size_t size, std::uint16_t site,
             bool& shared);
  void check_alignment(const Thread& self, std::uintptr_t address, std::size_t size,
                       std::uint16_t site);
  // Checks the address of an instruction that accesses only shared or only global memory.
  void check_operand(const Thread& self, std::uintptr_t address, std::size_t size,
                     std::uint16_t site, bool shared, const std::string& instruction);
  void note_read(const Thread& self, Cell& cell, Stamp now, bool shared);
  void log_access(std::size_t thread, std::uintptr_t address, std::size_t size, AccessKind kind,
                  std::uintptr_t return_address) {
    const std::uint16_t site = sites.id(return_address, kind, size);
    if (site == Sites::kForeign) return;
    recorder.begin(threads_[thread], address, size, kind, site);
  }
  // The region that holds the address; null if there is none.
  Region* region_of(std::uintptr_t address);
  SharedMemory& shared() { return shared_; }

  // ---- Called by the host ----------------------------------------------------------------------

  void reset_counts();
  Counts counts() const;
  // Releases memory that the next call would allocate anew.
  void release_if_idle();
  std::vector<SharedMap> shared_maps();

  // Shared by all families of instructions.
  Order order;
  GlobalMemory global;
  Sites sites;
  BlockRecorder block_recorder;
  RequestCounter requests{sites, block_recorder};
  Findings findings;
  AccessRecorder recorder;
  Waits waits;
  Schedule schedule;
  std::optional<BlockIndex> only_block;  // whose findings are kept
  // Since reset_counts().
  struct Events {
    std::uint64_t launches = 0, barriers = 0, warp_syncs = 0, exchanges = 0, barrier_calls = 0,
                  products = 0, multiply_adds = 0, products_left = 0;
    void note_product(int m, int n, int k) {
      ++products;
      multiply_adds += static_cast<std::uint64_t>(m) * n * k;
    }
  } events;

  // The families. Each has begin_block() and, where it needs them, on_access(), on_wait(),
  // end_thread() and end_block().
  WarpCalls warp_calls;
  AsyncCopies copies;
  Mbarriers mbarriers;
  NamedBarriers named_barriers;
  TensorCopies tensor_copies;
  TensorStores tensor_stores;
  Warpgroups warpgroups;

  // Guards all members: one launch, allocation, copy or query at a time.
  std::mutex mutex;

 private:
  // block.cpp: scheduling
  cudaError_t check_limits(const Launch& launch);
  void note_launch(const Launch& launch);
  void begin_block(std::uint64_t linear_block);
  void run_block();
  void release_barrier();
  void check_barrier();
  void make_room(Thread& self);
  static void thread_entry(void* thread);
  std::vector<int> ordered(std::size_t count);
  bool report_stuck(bool in_warp_call, bool waits_for_some);
  void report_deadlock();     // mbarrier.cpp
  bool report_block_count();  // block_count.cpp; false if no thread waits for a count

  // access_check.h, access_check.cpp
  void on_access_slow(Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
                      std::uintptr_t return_address);
  bool check_quickly(const Thread& self, Region& region, std::uintptr_t address, std::size_t size,
                     AccessKind kind, Stamp now);
  void check_cells(const Thread& self, Region& region, std::uintptr_t address, std::size_t size,
                   std::uint16_t site);
  bool readers_suffice(const Thread& self, const Cell& cell, Stamp now) const;
  bool is_mapped(std::uintptr_t address);

  std::optional<StackPool> stacks_;  // from the first launch on
  SharedMemory shared_;
  std::vector<Thread> threads_;
  std::mt19937_64 random_;

  const Launch* launch_ = nullptr;
  int num_threads_ = 0;          // of a block
  std::vector<int> lanes_left_;  // by warp: lanes that have not exited
  bool in_block_ = false;
  uint3 block_index_{};
  std::uint64_t linear_block_ = 0;
  bool killed_ = false;
  std::exception_ptr exception_;
  std::map<std::uintptr_t, std::string> kernel_names_;
  std::uint64_t barriers_before_block_ = 0;
  // The storages of kernels since reset_counts(), in order of their first launch.
  std::vector<std::pair<std::uintptr_t, SharedLayout>> layouts_;
  std::unordered_set<std::uintptr_t> mapped_pages_;
};

// The simulator of this process. It is made before main() and never destroyed, so that host objects
// may be destroyed in any order.
extern Core& core;

// The thread on whose stack this code runs. Null on the host.
__attribute__((always_inline)) inline Thread* running_thread() {
  const std::size_t index =
      StackPool::index_of(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  return index < StackPool::kMaxStacks ? &core.thread(index) : nullptr;
}

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_CORE_H_
