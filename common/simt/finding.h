/// @file finding.h
/// What the CPU simulator finds: data. finding.cpp makes the text of it.
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
  kDivergentBarrier,  ///< threads wait at different barriers, or at one that they name differently
  kWarpMask,          ///< an operation of a warp or a warpgroup that lacks a thread
  kLaunchLimit,
  kNullPointer,   ///< an address that is no memory at all
  kAsyncCopy,     ///< an asynchronous copy that is used before it ends, or never waited for; one to
                  ///< memory that is still in use
  kMbarrier,      ///< an mbarrier whose phases, arrivals or bytes go wrong; a deadlock at mbarriers
  kAsyncProduct,  ///< a product of a warpgroup whose registers or operands are used before it ends,
                  ///< that lacks a fence, or that is never waited for
  kBlockOrder,    ///< a wait for a block that begins later
};

/// What exactly is reported. finding.cpp has the kind and the title of each. Copies without "Box"
/// are those of cp.async.
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
};

/// A block of a grid, or a thread of a block.
struct BlockIndex {
  unsigned x, y, z;
};

enum class AccessKind : std::uint8_t { kRead, kWrite, kAtomic };

/// An access that a finding names.
struct FindingAccess {
  AccessKind kind;
  std::optional<BlockIndex> block;   ///< if it is not the finding's
  std::optional<BlockIndex> thread;  ///< in a block of more than one dimension
  int warp, lane;
  std::string location;  ///< file:line
  std::string source;    ///< the line's text
  std::string tile;      ///< "KV tile 1"; empty if it is in none
};
/// An mbarrier at which threads wait in vain: what its phase has had, and what it expects.
struct FindingBarrier {
  std::string name;  ///< "k_full[0]"
  int phase;
  std::int64_t arrived, arrivals, bytes_copied, bytes_expected;
};
/// One fault, with similar ones folded into it.
struct Finding {
  Report report;
  std::string kernel;                        ///< the kernel's name, demangled
  std::optional<BlockIndex> block;           ///< none if no block ran
  std::string array;                         ///< the array or allocation, or the nearest one
  std::string location;                      ///< file:line of the access
  std::string element = {};                  ///< "sK[17][4]"
  std::int64_t offset = 0;                   ///< from the array's first byte
  std::vector<FindingAccess> accesses = {};  ///< the last one is to blame, but for a race
  std::vector<FindingBarrier> barriers = {};
  std::string why = {};                 ///< in words: lines, of which the last has an end
  std::uint64_t count = 1;              ///< the number of similar findings, this one included
  bool explains_missing_names = false;  ///< that there is no debug information

  FindingKind kind() const;
  std::string title() const;  ///< "RACE in shared memory"
  /// The lines under the heading: element, who, where, why it is wrong.
  std::string text() const;
  /// Heading and text. The heading names `subject`.
  std::string message(const std::string& subject) const;
  std::string message() const { return message(kernel); }
};

/// "1 arrival", "2 arrivals".
std::string counted(std::int64_t count, const char* singular);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_FINDING_H_
