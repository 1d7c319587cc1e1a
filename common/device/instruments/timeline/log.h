// The log of a timeline: the events of the warps of one multiprocessor, with their times. Kernels
// write it in builds with CUFLASH_TIMELINE, and the program `timeline` reads it.
#ifndef CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_LOG_H_
#define CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_LOG_H_

namespace cuflash::timeline {

// The kind of an event. 0 means no event.
enum class Kind : unsigned {
  kBlock = 1,     // began its block; data: blockIdx.x, begin: the GPU's clock, nanoseconds
  kRegisters,     // released or took registers; data: the new number per thread
  kTile,          // begins a tile; data: its number
  kLastTile,      // has finished its last tile; data: the GPU's clock, nanoseconds
  kRequest,       // requested a tile; data: the address of its barrier
  kWait,          // waited for a phase of an mbarrier; data: the barrier's address
  kNamedBarrier,  // waited at a named barrier; data: its number
  kFence,         // begins to issue products
  kCommit,        // has issued a group of products
  kProducts,      // waited for groups of products; data: how many may still be running
};

// Times are the low halves of the multiprocessor's clock, in cycles.
struct Event {
  unsigned tag;
  unsigned begin, end;
  unsigned data;
};

// The fields of a tag, from the lowest bit on: the line of the kernel's file, the kind, the warp
// within its block, the low bits of the block's number, and the warp's place on the multiprocessor.
constexpr int kLineBits = 10, kKindBits = 4, kWarpBits = 5, kBlockBits = 7, kPlaceBits = 6;
static_assert(kLineBits + kKindBits + kWarpBits + kBlockBits + kPlaceBits == 32,
              "a tag has 32 bits");
static_assert(1 << kWarpBits >= 1024 / 32, "a block has at most 1,024 threads");

// Each place has a ring of slots, and a slot stands for a few cycles: an event is stored in the
// slot of its end time. Writing an event takes longer than a slot, so no warp needs a slot twice,
// and none has to count its events.
constexpr int kSlotBits = 20, kCyclesBits = 2;
constexpr unsigned kNumEvents = 1u << (kPlaceBits + kSlotBits);
constexpr unsigned kRingCycles = 1u << (kSlotBits + kCyclesBits);

constexpr unsigned kEverySm = ~0u;

struct Log {
  Event* events;  // kNumEvents in device memory, initially zero; null: nothing is recorded
  unsigned sm;    // the multiprocessor to record, or kEverySm
};

}  // namespace cuflash::timeline

#endif  // CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_LOG_H_
