/// @file machine.h
/// The public functions of the CPU simulator: its counts, its findings and its schedules.
///
/// Kernels reach the simulator through its cuda_runtime.h; tests, the ladder and tools use this
/// header. One simulator serves the process. It is a microscope, not a GPU: it counts and checks
/// but never times.
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

/// Totals over all launches since reset_counts(). Bytes are requested bytes: what the threads asked
/// for, before any cache.
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
  std::uint64_t shared_wavefronts = 0;  ///< passes over the 32 banks
  std::uint64_t bank_conflicts = 0;     ///< wavefronts beyond the fewest possible
  std::uint64_t barriers = 0;           ///< __syncthreads(), one for each block that passes it
  std::uint64_t warp_syncs = 0;         ///< __syncwarp(), one for each warp that passes it
  /// Passes of the same pipe in which lanes exchange values: shuffles, and blocks of matrices
  /// turned in registers.
  std::uint64_t exchanges = 0;
  /// Of threads: arrivals and waits at mbarriers and named barriers.
  std::uint64_t barrier_calls = 0;
  std::uint64_t products = 0;       ///< instructions for matrices, of a warp or a warpgroup
  std::uint64_t multiply_adds = 0;  ///< of these products
  /// Groups of products that a warpgroup's waits leave in flight, added up over the waits.
  std::uint64_t products_left = 0;
};

/// Counts since the last reset_counts().
Counts counts();
/// Sets all counts to zero, and forgets the shared_maps().
void reset_counts();

/// The requests of one source line to one memory, reads or writes, since reset_counts(). All lines
/// add up to counts(), except that counts() counts an atomic operation as a read, too.
struct LineCounts {
  std::string file;  ///< full path; empty if unknown
  int line = 0;
  bool shared = false;
  bool write = false;            ///< atomic operations are writes
  std::uint64_t requests = 0;    ///< warp instructions
  std::uint64_t bytes = 0;       ///< requested
  std::uint64_t sectors = 0;     ///< of global memory
  std::uint64_t wavefronts = 0;  ///< of shared memory
  std::uint64_t conflicts = 0;   ///< of shared memory: wavefronts beyond the fewest possible
};
/// Sorted by file and line.
std::vector<LineCounts> line_counts();

/// An array in dynamic shared memory. A scalar has no extents. Those of a union share their bytes.
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
  int tile = -1;            ///< the thread's, as mark_tile() said
  int array = 0;            ///< of AccessLog::arrays
  std::int64_t offset = 0;  ///< from the array's first byte
  int bytes = 0;
  std::uint16_t site = 0;  ///< of AccessLog::sites
  bool write = false;
  unsigned char value[16] = {};  ///< that was written
};
/// A product of a warp or a warpgroup, D += A · B: what its operands held, by rows. A has 16
/// columns.
struct LoggedProduct {
  LoggedAccess at;         ///< who and when: its first thread, when it is issued
  std::size_t before = 0;  ///< how many of AccessLog::accesses come before it
  int rows = 0, cols = 0;  ///< of D
  std::vector<float> a, b, d;
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
  std::vector<Place> sites;
};
/// From now on logs every access of launches, or no longer. It takes much memory: for small
/// problems.
void log_accesses(bool on);
/// Takes what was logged since the last call.
AccessLog take_access_log();

/// Neighbouring lanes of a request, or pieces of 16 bytes of a box: number `first` + i accesses the
/// byte `offset` + i * `stride` of the array.
struct LaneSpan {
  int first, lanes;
  std::int64_t offset, stride;
};
/// A tile, as mark_tile() said; without a name: none.
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
    kCopyRead,  ///< the two halves of a cp.async, when it is issued
    kCopyWrite,
    kBoxCopy,   ///< a box from global to shared memory, when it is issued
    kBoxStore,  ///< the same back
    kBoxAdd,    ///< the same, added to what lies there
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
  // Of requests and copies. A copy of a box is an event in global and one in shared memory, which
  // asks for no bytes: it does not pass the lanes' pipe.
  int array = -1;  ///< of BlockRun::arrays; -1: none
  bool shared = false;
  int lane_bytes = 0;                           ///< that one lane asks for
  std::uint64_t bytes = 0;                      ///< that the warp asks for
  std::uint64_t sectors = 0;                    ///< of global memory
  std::uint64_t wavefronts = 0, conflicts = 0;  ///< of shared memory
  std::vector<LaneSpan> lanes;
  std::vector<unsigned char> written;  ///< what a kWrite has stored, by lane
  // Of kArrive and kWait, and of a box that is copied to shared memory, whose end is an arrival.
  int barrier = -1;  ///< of BlockRun::barriers
  int phase = 0;  ///< of the barrier: that it arrives at or waits for; -1: the one before the first
  int pending = 0;  ///< groups for which kWaitCopies, kWaitProducts or kWaitStores does not wait
};
/// The run of one block: what each warp did, in the order of its program. Which of two warps did
/// something first is not known, and does not depend on the schedule.
struct BlockRun {
  struct Place {
    std::string file;  ///< full path
    int line;
    int kernel_line;  ///< the kernel's line whose inlined calls lead there; the same if there are
                      ///< none
  };
  /// An mbarrier or a named barrier.
  struct Barrier {
    std::string name;  ///< "k_full[0]", "barrier 1"
    bool named;        ///< who waits arrives, too
    int phases = 0;    ///< that have ended
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
/// From now on records one block of each launch, or no longer: the first, or that of
/// report_only_block().
void record_block(bool on);
/// Takes what was recorded since the last call: a run for each launch.
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
/// From now on threads pass the __syncthreads() and __syncwarp() of this line without waiting: a
/// tool asks whether the kernel needs them. "" for none.
void skip_waits_at(const std::string& location);

/// From now on keeps only findings that involve this block, and those of no block (a refused
/// launch). Launches still run all blocks. nullopt: keeps all.
void report_only_block(const std::optional<BlockIndex>& block);

/// Sets the schedule of the launches to come.
void set_schedule(const Schedule& schedule);
/// The schedule in force.
Schedule schedule();

/// False where the compiler has no hooks (clang, g++ before 12, the AddressSanitizer build): the
/// simulator then runs kernels and checks synchronisation, but counts and checks no access.
bool counts_accesses();

/// Gives a device allocation a name that findings use ("Q", "workspace"). `pointer` is what
/// cudaMalloc returned; any other pointer is ignored.
void name_memory(const void* pointer, const char* name);

/// Sets the most device memory that cudaMalloc hands out, bytes. Tests use it to run out of memory.
void set_memory_limit(std::size_t bytes);
/// Device memory allocated now, bytes.
std::size_t memory_in_use();

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_MACHINE_H_
