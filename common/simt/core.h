// Inside the simulator: the running block, its threads, and the one object that holds everything.
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
#include "simt/fences.h"
#include "simt/findings.h"
#include "simt/launch.h"
#include "simt/machine.h"
#include "simt/mbarrier.h"
#include "simt/memory.h"
#include "simt/named_barrier.h"
#include "simt/request_counter.h"
#include "simt/tensor_copy.h"
#include "simt/tensor_store.h"
#include "simt/thread.h"
#include "simt/waits.h"
#include "simt/wgmma.h"

namespace cuflash::simt {

struct FragmentType;
struct MatrixInMemory;
struct MatrixAccess;

// Limits of the modelled device, that of compute capability 9.0.
constexpr unsigned kMaxThreadsPerBlock = 1024;

class Core {
 public:
  // Runs a launch to its end. Returns the error that the CUDA runtime would report.
  cudaError_t run(const Launch& launch);

  // Called by running threads.
  // Returns how many threads came with `vote` set.
  int barrier(Thread& self, bool vote, std::uintptr_t return_address);
  void fence(Thread& self, bool block_only);
  void add_to_block_count(Thread& self, unsigned* count, std::uintptr_t return_address);
  void wait_for_block_count(Thread& self, const unsigned* count, unsigned value,
                            std::uintptr_t return_address);
  std::uint64_t warp_call(Thread& self, const WarpCall& call, std::uintptr_t return_address);
  void load_matrix(Thread& self, FragmentType type, void* x, const MatrixInMemory& matrix,
                   std::uintptr_t return_address);
  void store_matrix(Thread& self, FragmentType type, const void* x, const MatrixInMemory& matrix,
                    std::uintptr_t return_address);
  // A copy without `from` writes zeros.
  void issue_copy(Thread& self, std::uintptr_t to, std::optional<std::uintptr_t> from,
                  std::uintptr_t return_address);
  void commit_copies(Thread& self);
  void wait_for_copies(Thread& self, std::size_t pending);
  void init_mbarrier(Thread& self, std::uintptr_t address, unsigned arrivals,
                     std::uintptr_t return_address);
  void fence_mbarrier_inits(const Thread& self);
  void arrive_at_mbarrier(Thread& self, std::uintptr_t address, unsigned expected_bytes,
                          std::uintptr_t return_address);
  void wait_at_mbarrier(Thread& self, std::uintptr_t address, unsigned parity,
                        std::uintptr_t return_address);
  bool come_to_named_barrier(Thread& self, int number, int threads, Coming how, bool mine,
                             std::uintptr_t return_address);
  void fence_proxy_async(Thread& self, bool global);
  void issue_tensor_store(Thread& self, const TensorMapArguments& map, const int (&first)[4],
                          std::uintptr_t from, std::uintptr_t return_address);
  void issue_bulk_reduction(Thread& self, std::uintptr_t to, std::uintptr_t from, int bytes,
                            std::uintptr_t return_address);
  void commit_tensor_stores(const Thread& self);
  void wait_for_tensor_stores(const Thread& self, std::size_t pending, bool only_read);
  void issue_tensor_copy(Thread& self, std::uintptr_t to, const TensorMapArguments& map,
                         const int (&first)[4], std::uintptr_t barrier,
                         std::uintptr_t return_address);
  void warpgroup_call(Thread& self, const WarpgroupCall& call, std::uintptr_t return_address);
  // True if products have been issued in this block: their registers are on the threads' stacks.
  bool watches_registers() const { return products_in_use_; }
  // True if products or stores of boxes have been issued in this block.
  bool has_async_readers() const { return products_in_use_ || tensor_stores_.in_use(); }
  void on_register_access(Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
                          std::uintptr_t return_address);
  void mark_tile(Thread& self, const char* name, int number);
  std::string mbarrier_name(std::uintptr_t address) const {
    return name_of(*mbarriers_.at.at(address));
  }
  void on_access(std::size_t thread, std::uintptr_t address, std::size_t size, AccessKind kind,
                 std::uintptr_t return_address);
  Thread& thread(std::size_t index) { return threads_[index]; }
  unsigned active_lanes(int warp) const;
  const Launch* launch() const { return launch_; }
  uint3 block_index() const { return block_index_; }
  std::uint64_t linear_block() const { return linear_block_; }
  int barriers_of_block() const {
    return static_cast<int>(events_.barriers - barriers_before_block_);
  }
  bool array_at(std::uintptr_t address, LoggedArray& array, std::uintptr_t& begin);
  const std::string& kernel_name(std::uintptr_t kernel);
  void log_access(std::size_t thread, std::uintptr_t address, std::size_t size, AccessKind kind,
                  std::uintptr_t return_address) {
    const std::uint16_t site = sites.id(return_address, kind, size);
    if (site == Sites::kForeign) return;
    recorder.begin(*this, threads_[thread], address, size, kind, site);
  }

  // Called by the host.
  void reset_counts();
  Counts counts() const;
  // Releases memory that the next call would allocate anew.
  void release_if_idle();
  std::vector<SharedMap> shared_maps();

  GlobalMemory global;
  Sites sites;
  BlockRecorder block_recorder;
  RequestCounter requests{sites, block_recorder};
  Findings findings;
  AccessRecorder recorder;
  Waits waits;
  Schedule schedule;
  std::optional<BlockIndex> only_block;  // whose findings are kept
  // Guards all of the above and below: one launch, allocation, copy or question at a time.
  std::mutex mutex;

 private:
  // block.cpp: scheduling
  cudaError_t check_limits(const Launch& launch);
  void note_launch(const Launch& launch);
  void run_block(std::uint64_t linear_block);
  void suspend(Thread& thread, Thread::State state, std::uintptr_t return_address);
  void release_barrier();
  void check_barrier();
  void flush_warp(int warp);
  void make_room(Thread& self);
  [[noreturn]] void kill_launch();  // by the running thread
  static void thread_entry(void* thread);
  std::vector<int> ordered(std::size_t count);
  Stamp next_moment() { return now_ += kOneEpoch; }
  Stamp stamp_of(const Thread& self, std::uint16_t site) const {
    return now_ | static_cast<Stamp>(self.index) << kSiteBits | site;
  }

  // warp.cpp: warp-wide operations
  bool warp_call_complete(const Thread& caller, bool ignore_absent);
  void finish_warp_call(const Thread& caller);
  unsigned existing_lanes(int warp) const;
  void order_lanes(int warp, unsigned mask);
  void end_warp_calls();
  void finish_matrix_call(const Thread& caller);
  void report_stuck(const Thread& waiting);
  bool is_absent(int warp, int lane) const;
  bool is_missing(const Thread& waiting, int lane) const;

  // matrix.cpp: nvcuda::wmma
  void access_matrix(Thread& self, const MatrixAccess& access, std::uintptr_t return_address);
  void check_matrix(const Thread& caller, const MatrixAccess& access);
  void account_for_matrix(int warp, const MatrixAccess& access);
  void log_matrix(const Thread& self, const MatrixAccess& access, std::uintptr_t return_address);
  void finish_product(int warp);
  void finish_matrix_access(const Thread& caller);

  void finish_mma(int warp);       // mma.cpp: mma.sync
  void finish_ldmatrix(int warp);  // ldmatrix.cpp

  // access_check.h, access_check.cpp: checking
  void on_access_slow(Thread& self, std::uintptr_t address, std::size_t size, AccessKind kind,
                      std::uintptr_t return_address);
  bool check_and_count(Thread& self, std::uintptr_t address, std::size_t size, std::uint16_t site);
  Fence fence_now(const Thread& self, bool block_only);
  bool check_quickly(const Thread& self, Region& region, std::uintptr_t address, std::size_t size,
                     AccessKind kind, Stamp now);
  bool check(Thread& self, std::uintptr_t address, std::size_t size, std::uint16_t site,
             bool& shared);
  void check_alignment(const Thread& self, std::uintptr_t address, std::size_t size,
                       std::uint16_t site);
  void check_operand(const Thread& self, std::uintptr_t address, std::size_t size,
                     std::uint16_t site, bool shared, const std::string& instruction);
  void check_cells(const Thread& self, Region& region, std::uintptr_t address, std::size_t size,
                   std::uint16_t site);
  void note_read(const Thread& self, Cell& cell, Stamp now, bool shared);
  bool ordered_by_barriers(Stamp earlier, Stamp now, bool shared) const;
  bool ordered_by_warp(const Thread& self, Stamp earlier, Stamp now) const;
  bool happens_before(Stamp earlier, const Thread& self, Stamp now, bool shared) const;
  bool readers_suffice(const Thread& self, const Cell& cell, Stamp now) const;
  Region* region_of(std::uintptr_t address);
  bool is_mapped(std::uintptr_t address);

  // An access that a report names.
  struct NamedAccess {
    int thread;
    std::uint64_t block;
    int site;
    const TileMark* tile;  // null if unknown
  };
  NamedAccess access_of(const Thread& self, std::uint16_t site) const {
    return {self.index, linear_block_, site, self.tile()};
  }

  // cp_async.cpp: asynchronous copies
  void end_copy(const Thread& self, const AsyncCopy& copy);
  void check_source(const Thread& self, std::uintptr_t from, std::size_t size, Stamp begun,
                    std::uint16_t read_site, bool noted);
  bool meets_copy(const Thread& self, const Region& region, std::uintptr_t address,
                  std::uint16_t site);
  void check_unfinished_copies(const Thread& self);

  // mbarrier.cpp: barriers in shared memory
  Mbarrier& mbarrier(const Thread& self, std::uintptr_t address, std::uint16_t site);
  void note_moment(Thread& self);
  void share_knowledge(const std::vector<Thread*>& threads);
  void end_phase_if_over(Thread& self, Mbarrier& barrier);
  void report_mbarrier(Report report, const Mbarrier& barrier,
                       const std::vector<NamedAccess>& accesses, const std::string& what);
  void report_deadlock();
  std::string name_of(const Mbarrier& barrier) const;

  // block_count.cpp: counts by which blocks wait for others
  std::uint16_t access_block_count(Thread& self, const unsigned* count,
                                   std::uintptr_t return_address);
  bool report_block_count();  // false if no thread waits for one

  // proxy_fence.cpp: order between threads and the copy unit
  void check_proxy_fence(const Thread& self, const Region& region, std::uintptr_t address,
                         Stamp earlier, std::uint16_t site);

  // named_barrier.cpp: barriers of some warps
  void check_comer(const Thread& self, const NamedBarrier& barrier, int threads, Coming how);
  void open_named_barrier(const Thread& self, NamedBarrier& barrier);
  void report_named_barrier(const Thread& self, Report report, const std::string& why);

  // tensor_box.cpp
  void check_box(const Thread& self, std::uintptr_t shared, std::size_t bytes, int innermost,
                 std::uint16_t site, const std::string& verb);
  void check_span(const Thread& self, std::uintptr_t shared, std::size_t bytes, std::uint16_t site);

  // tensor_copy.cpp: copies of boxes
  void check_phase(const Thread& self, const Mbarrier& barrier, std::uint16_t site);
  void read_box(Thread& self, const TensorCopy& copy);
  void check_destination(const Thread& self, const TensorCopy& copy);
  void report_not_full(const Thread& self, const TensorCopy& copy, std::uintptr_t address,
                       std::uint16_t site);
  void take_destination(TensorCopy& copy);
  void end_tensor_copies(const Thread& self, const Mbarrier& barrier, int phase);
  bool is_over(Stamp read, const Thread& self, Stamp now, bool shared) const;
  void end_tensor_copy(const Thread& self, TensorCopy& copy);
  bool may_access(const Thread& self, TensorCopy& copy, std::uintptr_t address, std::uint16_t site);
  bool has_ended(const Thread& self, const TensorCopy& copy) const;
  void check_unfinished_tensor_copies();

  // tensor_store.cpp: stores of boxes, and reductions
  void begin_tensor_store(Thread& self, TensorStore&& begins, std::uint16_t site);
  void check_store_source(const Thread& self, const TensorStore& store);
  void take_store_target(Thread& self, TensorStore& store);
  Stamp& store_read(std::uintptr_t address);
  Stamp unordered_store_read(const Thread& self, std::uintptr_t address, std::uint16_t site);
  bool meets_store(const Thread& self, const Region& region, std::uintptr_t address,
                   std::uint16_t site);
  void end_reading(TensorStore& store);
  void end_tensor_store(std::list<TensorStore>::iterator store);
  void check_unfinished_tensor_stores(const Thread& self);
  void end_all_tensor_stores();

  // warpgroup.cpp: operations of warpgroups
  void finish_warpgroup_call(Warpgroup& group);
  void check_same_call(const Warpgroup& group);
  void report_absent(const Thread& waiting, int absent, const std::string& why);
  bool report_stuck_warpgroup();
  void let_go(const Warpgroup& group);

  // register_pool.cpp: setmaxnreg
  int registers_at_launch() const;
  bool take_block_registers(Warpgroup& group, int registers);
  bool let_some_have_registers();
  bool report_lack_of_registers();

  // wgmma.cpp: products of warpgroups
  void begin_product(Warpgroup& group);
  void end_products(Warpgroup& group, std::size_t pending);
  Accumulator& accumulator_of(Warpgroup& group);

  // wgmma_check.cpp: their operands in shared memory
  void check_same_matrices(const Warpgroup& group, std::uint16_t site);
  void check_operands(Warpgroup& group, const WarpgroupProduct& product);
  void check_chunk(Warpgroup& group, const OperandChunk& chunk, std::uint16_t site);
  void check_written(Warpgroup& group, int warp, Stamp writer, std::uintptr_t address,
                     std::uint16_t site);
  void check_full(Warpgroup& group, int warp, const TensorCopy& copy, std::uintptr_t address,
                  std::uint16_t site);
  void release_operands(Warpgroup& group, const WarpgroupProduct& product, Stamp now);
  Stamp unordered_product_read(const Thread& self, std::uintptr_t address, std::uint16_t site);
  bool is_done(const Warpgroup& group, Stamp read, const Thread& self, std::uint16_t site) const;
  Stamp& product_read(Warpgroup& group, std::uintptr_t address) const;
  void check_unfinished_products();

  // wgmma_registers.cpp: their registers
  void take_registers(Warpgroup& group, const WarpgroupProduct& product);
  ProductRegisters& registers_at(Thread& self, std::uintptr_t begin, std::size_t bytes,
                                 bool accumulator, std::uint16_t site);
  void release_registers(const Warpgroup& group, const WarpgroupProduct& product);
  void report_registers(Report report, const std::vector<NamedAccess>& accesses,
                        const std::string& what);

  // race_findings.cpp: races in words
  void report_race(const Thread& self, const Region& region, std::uintptr_t address, Stamp earlier,
                   std::uint16_t site);
  NamedAccess named_access(Stamp stamp) const;
  static int distance(const NamedAccess& a, const NamedAccess& b);
  bool comes_first(const NamedAccess& earlier, const NamedAccess& later) const;
  std::string explain_race(const NamedAccess& first, const NamedAccess& second) const;

  // findings.cpp: the data of findings
  void report_access(Report report, const Thread& self, const Region* region,
                     std::uintptr_t address, std::uint16_t site, const std::string& what);
  void report_block(Report report, std::uintptr_t where, const std::string& body,
                    const std::vector<FindingBarrier>& barriers = {});
  void report_accesses(Report report, const Region* region, std::uintptr_t address,
                       const std::vector<NamedAccess>& accesses, const std::string& what,
                       const Site* element = nullptr);
  bool keeps(std::uint64_t block) const;
  Finding finding_at(Report report, const SourcePlace& place, const std::string& why,
                     const std::vector<NamedAccess>& accesses = {});
  void describe(Finding finding, const Region* region, std::uintptr_t address, const Site& site);
  std::string array_name(const Region* region, std::uintptr_t address) const;
  std::uintptr_t array_begin(const Region* region, std::uintptr_t address) const;
  bool lacks_names(const Region* region, std::uintptr_t address) const;
  std::string element_name(const Region* region, std::uintptr_t address, const Site& site) const;
  static std::string tile_of(const NamedAccess& access);
  FindingAccess described(const NamedAccess& access) const;
  std::uint64_t block_of(Stamp stamp) const;

  Fences fences_;
  CopiesInFlight copies_;
  Mbarriers mbarriers_;
  NamedBarriers named_barriers_;
  TensorCopies tensor_copies_;
  TensorStores tensor_stores_;
  std::vector<Warpgroup> warpgroups_;  // none before the first operation of one
  bool knowledge_in_use_ = false;      // in this block
  bool products_in_use_ = false;       // in this block
  std::optional<StackPool> stacks_;    // from the first launch on
  SharedMemory shared_;
  std::vector<Thread> threads_;
  std::mt19937_64 random_;

  const Launch* launch_ = nullptr;
  int num_threads_ = 0;            // of a block
  std::vector<int> lanes_left_;    // by warp: lanes that have not exited
  std::vector<int> last_missing_;  // by warp: the lane that kept the last operation waiting
  bool in_block_ = false;
  uint3 block_index_{};
  std::uint64_t linear_block_ = 0;
  bool killed_ = false;
  std::exception_ptr exception_;
  std::map<std::uintptr_t, std::string> kernel_names_;
  // Since reset_counts(): events, and the storages of kernels in order of their first launch.
  struct Events {
    std::uint64_t launches = 0, barriers = 0, warp_syncs = 0, exchanges = 0, barrier_calls = 0,
                  products = 0, multiply_adds = 0;
    void note_product(int m, int n, int k) {
      ++products;
      multiply_adds += static_cast<std::uint64_t>(m) * n * k;
    }
  } events_;
  std::uint64_t barriers_before_block_ = 0;
  std::vector<std::pair<std::uintptr_t, SharedLayout>> layouts_;
  std::unordered_set<std::uintptr_t> mapped_pages_;

  // Moments are stamps of thread 0 and site 0. Every launch, block, barrier, fence and __syncwarp()
  // begins a new epoch; what has a smaller stamp came before it.
  Stamp now_ = kHostStamp;
  Stamp launch_start_ = 0;
  Stamp block_start_ = 0;
  Stamp last_barrier_ = 0;
  std::vector<Stamp> last_warp_event_;                       // by warp: of all its lanes
  std::vector<std::pair<Stamp, std::uint64_t>> blocks_run_;  // start, block
};

// The simulator of this process. It is made before main() and never destroyed, so that host objects
// may be destroyed in any order.
extern Core& core;

// The thread that runs now: the one on whose stack we are. Null on the host.
__attribute__((always_inline)) inline Thread* running_thread() {
  const std::size_t index =
      StackPool::index_of(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  return index < StackPool::kMaxStacks ? &core.thread(index) : nullptr;
}

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_CORE_H_
