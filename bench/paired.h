// Compares two calls on a GPU, launch by launch, to measure differences of 1 %.
#ifndef CUFLASH_BENCH_PAIRED_H_
#define CUFLASH_BENCH_PAIRED_H_

#include "ratio.h"
#include "timing.h"

namespace cuflash::bench {

// The method of compare(), as a sentence for reports.
inline constexpr const char* kPairedMethod =
    "A B B A, launch by launch, up to 200 pairs after a warm-up, L2 warm; the median of B / A with "
    "half of its 95 % interval; cycles are the SMs' own, from before a call to after it";

struct Paired {
  Ratio ms, cycles;  // milliseconds, and cycles of an SM's clock
};

// Up to 200 pairs of A and B, at least 20, in about a second. All are queued at once: the GPU does
// not wait for the CPU between them, unless a call is shorter than its launch. Give both the same
// tensors, because a tensor's place in memory also affects the time. Every measurement contains the
// time and the cycles of a call that queues nothing.
Paired compare(const Queue& a, const Queue& b);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_PAIRED_H_
