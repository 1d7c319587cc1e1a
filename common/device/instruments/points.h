// Instrumentation points: the functions that wait, arrive, or issue copies or products call these.
// An instrument is a build option: CUFLASH_DELAYS, CUFLASH_TIMELINE or CUFLASH_WATCHDOG. In the
// usual build all of this is empty and generates no instruction.
#ifndef CUFLASH_DEVICE_INSTRUMENTS_POINTS_H_
#define CUFLASH_DEVICE_INSTRUMENTS_POINTS_H_

#include <cuda_runtime.h>

#include "device/instruments/timeline/log.h"
#ifdef CUFLASH_DELAYS
#include "device/instruments/delays.h"
#endif
#ifdef CUFLASH_TIMELINE
#include "device/instruments/timeline/record.h"
#endif
#ifdef CUFLASH_WATCHDOG
#include "device/instruments/watchdog.h"
#endif

namespace cuflash::instruments {

using timeline::Kind;

// A parameter of this type with the default {} holds the line of the call.
struct Line {
  int number;
  __device__ __forceinline__ constexpr Line(int here = __builtin_LINE()) : number(here) {}
};

// May delay the thread at this point.
__device__ __forceinline__ void may_be_late() {
#ifdef CUFLASH_DELAYS
  delays::delay();
#endif
}

// Records an instantaneous event.
__device__ __forceinline__ void note([[maybe_unused]] Kind kind, [[maybe_unused]] Line line,
                                     [[maybe_unused]] unsigned data = 0) {
#ifdef CUFLASH_TIMELINE
  timeline::record(kind, line.number, data);
#endif
}

// Records an event that lasts from here to the end of the scope.
class Span {
 public:
#ifdef CUFLASH_TIMELINE
  __device__ __forceinline__ Span(Kind kind, Line line, unsigned data)
      : kind_(kind), line_(line), data_(data), begin_(timeline::cycles()) {}
  __device__ __forceinline__ ~Span() { timeline::record(kind_, line_.number, begin_, data_); }

 private:
  Kind kind_;
  Line line_;
  unsigned data_, begin_;
#else
  template <class Data>  // on the CPU simulator, an address is a pointer
  __device__ __forceinline__ Span(Kind, Line, Data) {}
#endif
};

// A wait that lasts from here to the end of the scope: recorded, and the thread may be late before
// it and after it.
class Wait {
 public:
  __device__ __forceinline__ Wait(Kind kind, Line line, unsigned data) : span_(kind, line, data) {}

  // Called while the wait for a barrier continues.
  __device__ __forceinline__ void goes_on([[maybe_unused]] unsigned barrier,
                                          [[maybe_unused]] unsigned parity) {
#ifdef CUFLASH_WATCHDOG
    patience_.check(barrier, parity);
#endif
  }

 private:
  struct Late {
    __device__ __forceinline__ Late() { may_be_late(); }
    __device__ __forceinline__ ~Late() { may_be_late(); }
  };
  Late late_;
  Span span_;
#ifdef CUFLASH_WATCHDOG
  watchdog::Patience patience_;
#endif
};

}  // namespace cuflash::instruments

#endif  // CUFLASH_DEVICE_INSTRUMENTS_POINTS_H_
