// The log of a timeline: what the warps of one multiprocessor did when, as kernels write it in
// builds with CUFLASH_TIMELINE and as the program `timeline` reads it.
#ifndef CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_LOG_H_
#define CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_LOG_H_

namespace cuflash::timeline {

// What a warp did. 0 is no event.
enum class Kind : unsigned {
  kBlock = 1,     // began its block; data: blockIdx.x, begin: the GPU's clock, nanoseconds
  kRegisters,     // gave back or took registers; data: how many a thread has now
  kTile,          // begins a tile; data: its number
  kLastTile,      // has done its last tile; data: the GPU's clock, nanoseconds
  kRequest,       // requested a tile; data: the address of its barrier
  kWait,          // waited for a phase of an mbarrier; data: the barrier's address
  kNamedBarrier,  // waited at a named barrier; data: its number
  kFence,         // begins to issue products
  kCommit,        // has issued a group of products
  kProducts,      // waited for groups of products; data: how many may still run
};

// Times are the low halves of the multiprocessor's clock, in cycles.
struct Event {
  unsigned tag;
  unsigned begin, end;
  unsigned data;
};

// The fields of a tag, from the lowest bit on: the line of the kernel's file, the kind, the warp
// within its block, the number of the block, as far as it fits, and the warp's place on the
// multiprocessor.
constexpr int kLineBits = 10, kKindBits = 4, kWarpBits = 5, kBlockBits = 7, kPlaceBits = 6;
static_assert(kLineBits + kKindBits + kWarpBits + kBlockBits + kPlaceBits == 32,
              "a tag has 32 bits");
static_assert(1 << kWarpBits >= 1024 / 32, "a block has at most 1,024 threads");

// Each place has a ring of slots. An event lies in the slot of its end: a slot is some cycles, and
// a ring holds so many slots, after which it begins anew. To write an event takes longer than a
// slot, so that no warp needs two of them in one, and none has to count its events.
constexpr int kSlotBits = 20, kCyclesBits = 2;
constexpr unsigned kNumEvents = 1u << (kPlaceBits + kSlotBits);
constexpr unsigned kRingCycles = 1u << (kSlotBits + kCyclesBits);

constexpr unsigned kEverySm = ~0u;

struct Log {
  Event* events;  // kNumEvents in memory of the device, zeros at first; null: nothing is recorded
  unsigned sm;    // the multiprocessor that is recorded, or kEverySm
};

}  // namespace cuflash::timeline

#endif  // CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_LOG_H_
