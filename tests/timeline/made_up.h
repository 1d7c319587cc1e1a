// Events of a timeline's log as a kernel writes them.
#ifndef CUFLASH_TESTS_TIMELINE_MADE_UP_H_
#define CUFLASH_TESTS_TIMELINE_MADE_UP_H_

#include "device/instruments/timeline/log.h"

namespace cuflash::bench {

inline timeline::Event event(timeline::Kind kind, unsigned line, unsigned warp, unsigned block,
                             unsigned begin, unsigned end, unsigned data = 0) {
  using namespace timeline;
  const unsigned who = block % (1u << kBlockBits) << kWarpBits | warp;
  return {(who << kKindBits | static_cast<unsigned>(kind)) << kLineBits | line, begin, end, data};
}

}  // namespace cuflash::bench

#endif  // CUFLASH_TESTS_TIMELINE_MADE_UP_H_
