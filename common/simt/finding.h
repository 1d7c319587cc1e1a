/// @file finding.h
/// The findings of the CPU simulator as data. finding.cpp writes their text.
#ifndef CUFLASH_SIMT_FINDING_H_
#define CUFLASH_SIMT_FINDING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cuflash::simt {

/// The kinds of fault that the simulator detects.
enum class FindingKind {
  kSharedRace,
  kGlobalRace,
  kOutOfBounds,
  kUseAfterFree,
  kUninitialised,
  kMisaligned,
  kDivergentBarrier,  ///< threads wait at different barriers, or at one with different arguments
  kWarpMask,          ///< an operation of a warp or a warpgroup without all its threads
  kLaunchLimit,
  kNullPointer,  ///< an address without memory
  kAsyncCopy,  ///< an asynchronous copy to memory that is still in use, or that is accessed before
               ///< its end, or that is never waited for
  kMbarrier,   ///< wrong phases, arrivals or bytes of an mbarrier; a deadlock at mbarriers
  kAsyncProduct,  ///< a product of a warpgroup without a fence, or whose registers or operands are
                  ///< used before its end, or that is never waited for
  kBlockOrder,    ///< a wait for a block that begins later
  kMissingPage,   ///< a key in a page that does not exist
};

/// The reports. finding.cpp has the kind and the title of each. "Copy" without "Box" is a copy of
/// cp.async.
enum class Report {
  kSharedRace,
  kGlobalRace,
  kOutOfBounds,
  kUseAfterFree,
  kUninitialised,
  kMisaligned,
  kNoMemory,
  kDivergentBarrier,
  kNamedBarrierDeadlock,
  kNamedBarrierOutOfRange,
  kNamedBarrierOfTwoSizes,
  kNamedBarrierTooSoon,
  kNamedBarrierWithoutWarp,
  kWrongMask,
  kShuffleFromOutside,
  kMaskNamesAbsentLane,
  kMatrixWithoutAllLanes,
  kLanesNameMatrices,
  kThreadsNameMatrices,
  kWarpgroupWithoutAllThreads,
  kLaunchRefused,
  kTooFewRegisters,
  kReadOfCopy,
  kWriteOverCopy,
  kCopyWithoutWait,
  kSourceOfCopyOverwritten,
  kReadOfBoxCopy,
  kWriteOverBoxCopy,
  kBoxCopyWithoutWait,
  kBoxCopyOverReads,
  kReadWithoutProxyFence,
  kWriteWithoutProxyFence,
  kAccessWithoutProxyFence,
  kReadOfStore,
  kWriteOverStore,
  kStoreWithoutWait,
  kSourceOfStoreOverwritten,
  kCountBeforeEndOfStore,
  kMbarrierDeadlock,
  kMbarrierNotInitialised,
  kMbarrierOutOfRange,
  kMbarrierWithoutFence,
  kTooManyArrivals,
  kArrivalInLaterPhase,
  kMoreBytesThanExpected,
  kWaitPhaseLate,
  kOperandWithoutProxyFence,
  kOperandOverwritten,
  kProductWithoutFence,
  kProductWithoutWait,
  kRegisterInFlight,
  kWaitForLaterBlock,
  kMissingPage,
};

/// A block of a grid, or a thread of a block.
struct BlockIndex {
  unsigned x, y, z;
};

enum class AccessKind : std::uint8_t { kRead, kWrite, kAtomic };

/// An access in a finding.
struct FindingAccess {
  AccessKind kind;
  std::optional<BlockIndex> block;   ///< if it differs from the finding's
  std::optional<BlockIndex> thread;  ///< in a block of more than one dimension
  int warp, lane;
  std::string location;     ///< file:line
  std::string source;       ///< the line's text
  std::string tile;         ///< "KV tile 1"; empty if it is in none
  bool of_product = false;  ///< by a product of a warpgroup
};
/// An mbarrier at which threads wait in vain: the arrivals and bytes of its phase, and the expected
/// ones.
struct FindingBarrier {
  std::string name;  ///< "k_full[0]"
  int phase;
  std::int64_t arrived, arrivals, bytes_copied, bytes_expected;
};
/// One fault, together with similar ones.
struct Finding {
  Report report;
  std::string kernel;                        ///< the kernel's name, demangled
  std::optional<BlockIndex> block;           ///< empty if no block ran
  std::string array;                         ///< the array or allocation, or the nearest one
  std::string location;                      ///< file:line of the access
  std::string element = {};                  ///< "sK[17][4]"
  std::int64_t offset = 0;                   ///< from the array's first byte
  std::vector<FindingAccess> accesses = {};  ///< the last one is at fault, except in a race
  std::vector<FindingBarrier> barriers = {};
  std::string why = {};                 ///< the explanation, in lines that each end with a newline
  std::uint64_t count = 1;              ///< the number of similar findings, this one included
  bool explains_missing_names = false;  ///< true if the text says why names are missing

  FindingKind kind() const;
  std::string title() const;  ///< "RACE in shared memory"
  /// The lines below the heading: element, threads, places, explanation.
  std::string text() const;
  /// Heading and text. The heading contains `subject`.
  std::string message(const std::string& subject) const;
  std::string message() const { return message(kernel); }
};

/// "1 arrival", "2 arrivals".
std::string counted(std::int64_t count, const char* singular);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_FINDING_H_
