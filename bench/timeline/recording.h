// The blocks of one SM in a timeline's log.
#ifndef CUFLASH_BENCH_TIMELINE_RECORDING_H_
#define CUFLASH_BENCH_TIMELINE_RECORDING_H_

#include <cstdint>
#include <map>
#include <vector>

#include "device/instruments/timeline/log.h"

namespace cuflash::bench {

// A span of a warp's time. Times are cycles since the first event of the log.
struct Span {
  timeline::Kind kind;
  int line;  // of the kernel's file
  std::int64_t begin, end;
  unsigned data;
};

struct RecordedBlock {
  unsigned number;
  std::int64_t begin, end;  // its first and its last event
  unsigned nanoseconds;     // the low half of the GPU's clock at `begin`
  std::map<int, std::vector<Span>> warps;
};

// The blocks in the order in which they began. `events` are those of a log that are not zeros, in
// any order. Throws if the kernel ran so long that a ring of the log may have wrapped, or if an
// event belongs to no block.
std::vector<RecordedBlock> blocks_of(const std::vector<timeline::Event>& events);

// The SM's clock in cycles per nanosecond, from the first block's begin to the end of the last
// tile. Throws if no tile has ended.
double clock_ghz(const std::vector<RecordedBlock>& blocks);

// The middle block, and the blocks that ran at half of its time. If there is only one block, with
// several tiles of queries, its middle tile: from the end of the previous tile of queries to its
// own end.
std::vector<RecordedBlock> in_the_middle(const std::vector<RecordedBlock>& blocks);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_TIMELINE_RECORDING_H_
