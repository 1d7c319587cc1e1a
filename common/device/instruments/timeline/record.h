// Writes events to the log of a timeline.
#ifndef CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_RECORD_H_
#define CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_RECORD_H_

#include <cuda_runtime.h>

#include "device/instruments/timeline/log.h"
#include "device/instruments/timeline/set_log.h"

namespace cuflash::timeline {

static __constant__ Log log_of_file;
static const bool kLogIsKnown = add_symbol(&log_of_file);

// The low half of the multiprocessor's clock.
__device__ __forceinline__ unsigned cycles() {
  unsigned now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  return now;
}

// The low half of the GPU's clock.
__device__ __forceinline__ unsigned nanoseconds() {
  unsigned now;
  asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(now));
  return now;
}

// The tag of this thread's events, without kind and line; kSilent if it writes none. Only the first
// lane of a warp writes.
constexpr unsigned kSilent = ~0u;
__device__ __forceinline__ unsigned identity() {
  unsigned sm, place;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  asm("mov.u32 %0, %%warpid;" : "=r"(place));
  const Log& log = log_of_file;
  const bool here = log.events != nullptr && (log.sm == sm || log.sm == kEverySm);
  const unsigned id =
      (place << kBlockBits | blockIdx.x % (1u << kBlockBits)) << kWarpBits | threadIdx.x / 32;
  return here && threadIdx.x % 32 == 0 ? id << (kKindBits + kLineBits) : kSilent;
}

// Writes an event. The store is predicated, since between the issue of a product and the wait for
// it there may be neither calls nor branches.
__device__ __forceinline__ void record(Kind kind, int line, unsigned begin, unsigned end,
                                       unsigned data) {
  const unsigned id = identity();
  constexpr unsigned kSlotMask = (1u << kSlotBits) - 1;
  const unsigned slot =
      (id >> (32 - kPlaceBits - kSlotBits) & ~kSlotMask) | (end >> kCyclesBits & kSlotMask);
  const unsigned tag = id | static_cast<unsigned>(kind) << kLineBits | static_cast<unsigned>(line);
  asm volatile(
      "{ .reg .pred writes;\n"
      "setp.ne.u32 writes, %0, %1;\n"
      "@writes st.global.v4.b32 [%2], {%3, %4, %5, %6}; }"
      :
      : "r"(id), "n"(kSilent), "l"(__cvta_generic_to_global(log_of_file.events + slot)), "r"(tag),
        "r"(begin), "r"(end), "r"(data));
}

// Records an event from `begin` until now.
__device__ __forceinline__ void record(Kind kind, int line, unsigned begin, unsigned data) {
  record(kind, line, begin, cycles(), data);
}

// Records an instantaneous event. Some kinds also hold the GPU's clock.
__device__ __forceinline__ void record(Kind kind, int line, unsigned data) {
  const unsigned now = cycles();
  record(kind, line, kind == Kind::kBlock ? nanoseconds() : now, now,
         kind == Kind::kLastTile ? nanoseconds() : data);
}

}  // namespace cuflash::timeline

#endif  // CUFLASH_DEVICE_INSTRUMENTS_TIMELINE_RECORD_H_
