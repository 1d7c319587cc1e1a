/// @file machine.h
/// The public functions of the CPU simulator: its counts, its findings and its schedules.
///
/// Kernels reach the simulator through its cuda_runtime.h; tests, the ladder and tools use this
/// header. There is one simulator per process. It is a microscope, not a GPU: it counts and checks,
/// but it measures no time.
#ifndef CUFLASH_SIMT_MACHINE_H_
#define CUFLASH_SIMT_MACHINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simt/finding.h"

namespace cuflash::simt {

/// The order in which the simulator runs the blocks of a grid and the threads of a block. A correct
/// kernel computes the same under every one.
struct Schedule {
  /// kLagging: random, but the last lane of a warp runs only when no other thread can go on.
  enum class Order { kInOrder, kReversed, kRandom, kLagging };
  Order order = Order::kInOrder;
  std::uint64_t seed = 0;  ///< for kRandom and kLagging
};

/// Reads "inorder", "reversed", "random:SEED" or "lagging:SEED"; returns false for anything else.
bool parse_schedule(const std::string& text, Schedule& schedule);
/// Writes what parse_schedule() reads.
std::string schedule_name(const Schedule& schedule);

/// Totals over all launches since reset_counts(). Bytes are requested bytes: the bytes that the
/// threads load or store, before any cache.
struct Counts {
  std::uint64_t launches = 0;
  std::uint64_t global_read_bytes = 0;
  std::uint64_t global_write_bytes = 0;
  std::uint64_t global_read_requests = 0;  ///< warp instructions
  std::uint64_t global_write_requests = 0;
  std::uint64_t global_read_sectors = 0;  ///< 32-byte sectors touched, summed over requests
  std::uint64_t global_write_sectors = 0;
  std::uint64_t shared_read_bytes = 0;
  std::uint64_t shared_write_bytes = 0;
  std::uint64_t shared_requests = 0;
  std::uint64_t shared_wavefronts = 0;  ///< each delivers one word of each bank
  std::uint64_t bank_conflicts = 0;     ///< wavefronts beyond the minimum
  std::uint64_t barriers = 0;           ///< __syncthreads(), one per block that passes it
  std::uint64_t warp_syncs = 0;         ///< __syncwarp(), one per warp that passes it
  /// Wavefronts in which lanes exchange values without access to memory: shuffles, and blocks of
  /// matrices that are transposed in registers.
  std::uint64_t exchanges = 0;
  /// Arrivals and waits of threads at mbarriers and named barriers.
  std::uint64_t barrier_calls = 0;
  std::uint64_t products = 0;       ///< matrix products of a warp or a warpgroup, in instructions
  std::uint64_t multiply_adds = 0;  ///< of these products
  /// Groups of products that a warpgroup's waits leave in flight, added up over the waits.
  std::uint64_t products_left = 0;
};

/// Counts since the last reset_counts().
Counts counts();
/// Sets all counts to zero, and clears the shared_maps().
void reset_counts();

/// The requests of one source line to one memory, reads or writes, since reset_counts(). The sum of
/// all lines equals counts(), except that counts() also counts an atomic operation as a read.
struct LineCounts {
  std::string file;  ///< full path; empty if unknown
  int line = 0;
  bool shared = false;
  bool write = false;            ///< atomic operations are writes
  std::uint64_t requests = 0;    ///< warp instructions
  std::uint64_t bytes = 0;       ///< requested
  std::uint64_t sectors = 0;     ///< of global memory
  std::uint64_t wavefronts = 0;  ///< of shared memory
  std::uint64_t conflicts = 0;   ///< of shared memory: wavefronts beyond the minimum
};
/// Sorted by file and line.
std::vector<LineCounts> line_counts();

/// An array in dynamic shared memory. A scalar has no extents. The members of a union share their
/// bytes.
struct SharedArray {
  std::string name;  ///< with its path, if it is in a struct: "tiles.sK"
  std::size_t offset, element_bytes;
  std::vector<int> extents;
};
/// The dynamic shared memory of a kernel, as the debug information describes its storage. Without
/// debug information (-g) it has no arrays.
struct SharedMap {
  std::string kernel;
  std::size_t bytes;
  std::vector<SharedArray> arrays;
};
/// One map for each kernel that was launched with a shared_layout() since reset_counts(), in order
/// of first launch; for a kernel launched with several layouts, the last.
std::vector<SharedMap> shared_maps();

/// Takes the findings since the last call. The first of each kind and place is reported in full.
std::vector<Finding> take_findings();

/// An array that a kernel accesses, as its source or name_memory() names it.
struct LoggedArray {
  std::string name, kernel;
  bool shared = false;
  std::size_t element_bytes = 0;  ///< 0: unknown
  std::vector<int> extents;       ///< of an array in shared memory
  std::size_t offset = 0;         ///< in dynamic shared memory
  std::size_t bytes = 0;          ///< of an allocation in global memory
};
/// One access. The order of a log is the order in which the simulator ran.
struct LoggedAccess {
  int launch = 0;
  std::uint64_t block = 0;
  int thread = 0;
  int epoch = 0;            ///< how many barriers the block has passed
  int tile = -1;            ///< the thread's tile, from mark_tile(); -1: none
  int array = 0;            ///< of AccessLog::arrays
  std::int64_t offset = 0;  ///< from the array's first byte
  int bytes = 0;
  std::uint16_t site = 0;  ///< of AccessLog::sites
  bool write = false;
  unsigned char value[16] = {};  ///< the written value
};
/// A product of a warp or a warpgroup, D += A · B: what its operands held, by rows. A has 16
/// columns.
struct LoggedProduct {
  LoggedAccess at;         ///< its first thread, at the issue
  std::size_t before = 0;  ///< how many of AccessLog::accesses come before it
  int rows = 0, cols = 0;  ///< of D
  std::vector<float> a, b, d;
};
/// A call at an mbarrier or a named barrier.
struct LoggedBarrierCall {
  LoggedAccess at;
  std::string words;  ///< "waits for k_full[0] with parity 1"
};
struct AccessLog {
  struct Place {
    std::string location, source;  ///< "kernel.cuh:72", the line's text
  };
  /// How often a lane received the value of lane ^ n in a shuffle. n = 0: its own.
  std::array<std::uint64_t, 32> shuffles = {};
  std::vector<LoggedArray> arrays;
  std::vector<LoggedAccess> accesses;
  std::vector<LoggedProduct> products;
  std::vector<LoggedBarrierCall> barrier_calls;
  std::vector<Place> sites;
};
/// Begins or ends the logging of every access of launches. A log takes much memory: it is for small
/// problems.
void log_accesses(bool on);
/// Returns the log since the last call.
AccessLog take_access_log();

/// Neighbouring lanes of a request, or pieces of 16 bytes of a box: number `first` + i accesses the
/// byte `offset` + i * `stride` of the array.
struct LaneSpan {
  int first, lanes;
  std::int64_t offset, stride;
};
/// A tile that mark_tile() marked; without a name, no tile.
struct WarpTile {
  std::string name;
  int number = 0;
};
/// What a warp does: a request to memory, or an operation of its lanes.
struct WarpEvent {
  enum class Kind {
    kRead,
    kWrite,
    kAtomic,
    kCopyRead,  ///< the read and the write of a cp.async, at its issue
    kCopyWrite,
    kBoxCopy,   ///< a copy of a box from global to shared memory, at its issue
    kBoxStore,  ///< a store of a box from shared to global memory
    kBoxAdd,    ///< a reduction: a store that adds
    kShuffle,
    kVote,
    kProduct,
    kSyncWarp,
    kBarrier,       ///< __syncthreads(): the interval ends
    kCommitCopies,  ///< a group of cp.async ends
    kCommitProducts,
    kCommitStores,  ///< of boxes
    kWaitCopies,    ///< for all groups but the last few
    kWaitProducts,
    kWaitStores,
    kArrive,  ///< at an mbarrier or a named barrier, without waiting
    kWait,    ///< at an mbarrier or a named barrier
  };
  Kind kind = Kind::kRead;
  int interval = 0;  ///< how many __syncthreads() the block has passed
  WarpTile tile;
  int place = 0;  ///< of BlockRun::places
  // For requests and copies. A copy of a box is one event in global memory and one in shared
  // memory. The latter has no bytes, because it does not use the pipe of loads and stores.
  int array = -1;  ///< of BlockRun::arrays; -1: none
  bool shared = false;
  int lane_bytes = 0;                           ///< per lane
  std::uint64_t bytes = 0;                      ///< of all lanes of the warp
  std::uint64_t sectors = 0;                    ///< of global memory
  std::uint64_t wavefronts = 0, conflicts = 0;  ///< of shared memory
  std::vector<LaneSpan> lanes;
  std::vector<unsigned char> written;  ///< the values of a kWrite, by lane
  // For kArrive and kWait, and for a copy of a box to shared memory, whose end is an arrival.
  int barrier = -1;  ///< of BlockRun::barriers
  int phase = 0;     ///< the barrier's phase of the arrival or wait; -1: the one before the first
  int pending = 0;   ///< groups that kWaitCopies, kWaitProducts or kWaitStores leaves in flight
};
/// The run of one block: the events of each warp, in program order. The run has no order between
/// the events of two warps, and it does not depend on the schedule.
struct BlockRun {
  struct Place {
    std::string file;  ///< full path
    int line;
    int kernel_line;  ///< the kernel's line whose inlined calls lead there, or the place's own
                      ///< line
  };
  /// An mbarrier or a named barrier.
  struct Barrier {
    std::string name;  ///< "k_full[0]", "barrier 1"
    bool named;        ///< true if it is a named barrier, at which a wait is also an arrival
    int phases = 0;    ///< number of ended phases
  };
  std::string kernel;
  BlockIndex block;
  std::uint64_t blocks = 0;  ///< of the grid
  int threads = 0;
  int intervals = 0;  ///< between barriers
  std::size_t shared_bytes = 0;
  Counts counts;  ///< of this block
  std::vector<Place> places;
  std::vector<LoggedArray> arrays;
  std::vector<Barrier> barriers;
  std::vector<std::vector<WarpEvent>> warps;
};
/// Begins or ends the recording of one block of each launch: the first, or the block of
/// report_only_block().
void record_block(bool on);
/// Returns the runs recorded since the last call, one per launch.
std::vector<BlockRun> take_block_runs();

/// A source line at which threads waited for others since reset_counts(): a __syncthreads(), or a
/// __syncwarp() with all lanes of its mask.
struct WaitPlace {
  std::string location;  ///< "kernel.cuh:72"
  std::string file;      ///< its full path
  int line = 0;
  bool of_warp = false;  ///< __syncwarp()
};
/// Sorted by location.
std::vector<WaitPlace> wait_places();
/// Lets threads pass the __syncthreads() and __syncwarp() of this line without waiting, so that a
/// tool can test whether the kernel needs them. "" for none.
void skip_waits_at(const std::string& location);

/// Keeps only findings that involve this block, and findings without a block, such as a refused
/// launch. Launches still run all blocks. nullopt keeps all findings.
void report_only_block(const std::optional<BlockIndex>& block);

/// Sets the schedule of later launches.
void set_schedule(const Schedule& schedule);
/// The current schedule.
Schedule schedule();

/// True if accesses are counted and checked. Without the compiler's hooks (clang, g++ before 12,
/// the AddressSanitizer build) the simulator only runs kernels and checks synchronisation.
bool counts_accesses();

/// Gives a device allocation a name that findings use ("Q", "workspace"). `pointer` is what
/// cudaMalloc returned; any other pointer is ignored.
void name_memory(const void* pointer, const char* name);

/// Sets the limit of device memory that cudaMalloc allocates, in bytes. Tests use it to run out of
/// memory.
void set_memory_limit(std::size_t bytes);
/// Currently allocated device memory, in bytes.
std::size_t memory_in_use();

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_MACHINE_H_
