// One CUDA thread of the running block.
#ifndef CUFLASH_SIMT_THREAD_H_
#define CUFLASH_SIMT_THREAD_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "simt/fences.h"
#include "simt/fiber.h"
#include "simt/knowledge.h"
#include "simt/launch.h"
#include "simt/request_counter.h"
#include "simt/wgmma.h"

namespace cuflash::simt {

struct Mbarrier;
struct WarpgroupCall;

// The tile of a thread from a moment on.
struct TileMark {
  Stamp since;
  const char* name;
  int number;
};

// It runs on the stack of the same index.
struct Thread {
  enum class State {
    kReady,
    kAtBarrier,
    kAtNamedBarrier,
    kAtMbarrier,
    kAtBlockCount,
    kInWarpCall,
    kInWarpgroupCall,
    kExited
  };

  LaneTrace trace;
  Fiber fiber;
  int index = 0;  // within the block
  uint3 id{};
  State state = State::kReady;
  bool lags = false;  // it runs only when no other thread can go on

  // Its place of waiting, and its arguments of a warp-wide operation.
  std::uintptr_t wait_address = 0;
  WarpCall call{};
  std::uint64_t result = 0;
  bool vote = false;      // at a barrier
  int named_barrier = 0;  // the last one
  const Mbarrier* mbarrier = nullptr;
  const unsigned* block_count = nullptr;  // and the value that it waits for
  unsigned awaited_count = 0;
  const WarpgroupCall* warpgroup_call = nullptr;
  // The moment of its last barrier or __syncwarp().
  Stamp last_event = 0;
  // synced[l]: accesses of lane l of the same warp before this moment happened before this thread's
  // next access.
  Stamp synced[32] = {};
  ThreadFences fences;
  Knowledge knowledge;
  std::vector<ProductRegisters> registers;  // by address
  // Its tiles, at least from the last barrier on. No access in a race is older.
  std::vector<TileMark> tiles;

  // The tile it is in; null for none.
  const TileMark* tile() const {
    return tiles.empty() || tiles.back().name == nullptr ? nullptr : &tiles.back();
  }
  // True if it waits for certain threads, or for a copy.
  bool waits_for_some() const {
    return state == State::kAtMbarrier || state == State::kAtNamedBarrier ||
           state == State::kAtBlockCount;
  }
  bool counted() const { return state == State::kAtBlockCount && *block_count == awaited_count; }
  int lane() const { return index % 32; }
  int warp() const { return index / 32; }
};

static_assert(std::is_nothrow_move_constructible_v<Thread>,
              "a vector that grows moves its threads: the copy of a trace is no trace");

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_THREAD_H_
