// mma.sync m16n8k16: a warp's product, computed by the last lane to arrive.
//
// Products are exact: those of two halves always, those of two bfloat16 unless they overflow or
// underflow. Sums are rounded to the nearest float, one after the other: the old D first, then k
// from first to last. NVIDIA specifies no order; a GPU adds several products at once and rounds
// differently, so the last bits differ.
#include <device/ptx/mma.h>

#include "device/mma_fragments.h"
#include "simt/core.h"
#include "simt/round16.h"

namespace cuflash::simt {
namespace {

// The operands of a lane.
struct MmaOperands {
  float* d;
  const std::uint32_t *a, *b;
  bool bfloat16;
};

// Element i of an operand's registers.
float element(const std::uint32_t* registers, int i, bool bfloat16) {
  const auto bits = static_cast<std::uint16_t>(registers[i / 2] >> i % 2 * 16);
  return bfloat16 ? decode16<Bfloat16Format>(bits) : decode16<HalfFormat>(bits);
}

}  // namespace

void finish_mma(const Thread* lanes) {
  core.events.note_product(kMmaM, kMmaN, kMmaK);
  const MmaOperands* of_lane[32];
  float a[kMmaM][kMmaK], b[kMmaK][kMmaN], d[kMmaM][kMmaN];
  for (int lane = 0; lane < 32; ++lane) {
    of_lane[lane] = reinterpret_cast<const MmaOperands*>(lanes[lane].call.value);
    const MmaOperands& mine = *of_lane[lane];
    for (int i = 0; i < MmaA::kElements; ++i) {
      a[MmaA::row(lane, i)][MmaA::col(lane, i)] = element(mine.a, i, mine.bfloat16);
    }
    for (int i = 0; i < MmaB::kElements; ++i) {
      b[MmaB::row(lane, i)][MmaB::col(lane, i)] = element(mine.b, i, mine.bfloat16);
    }
    for (int i = 0; i < MmaAccumulator::kElements; ++i) {
      d[MmaAccumulator::row(lane, i)][MmaAccumulator::col(lane, i)] = mine.d[i];
    }
  }
  if (core.recorder.on()) {
    const std::uint16_t site = core.sites.id(lanes[0].wait_address, AccessKind::kRead, 4);
    LoggedProduct& log =
        core.recorder.product(core.recorder.begin_product(lanes[0], site, kMmaM, kMmaN));
    log.a.assign(a[0], a[0] + kMmaM * kMmaK);
    log.b.assign(b[0], b[0] + kMmaK * kMmaN);
    log.d.assign(d[0], d[0] + kMmaM * kMmaN);
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < MmaAccumulator::kElements; ++i) {
      const int row = MmaAccumulator::row(lane, i), col = MmaAccumulator::col(lane, i);
      float sum = d[row][col];
      for (int k = 0; k < kMmaK; ++k) sum += a[row][k] * b[k][col];
      of_lane[lane]->d[i] = sum;
    }
  }
}

void multiply_fragments(float* d, const std::uint32_t* a, const std::uint32_t* b, bool bfloat16) {
  const MmaOperands operands{d, a, b, bfloat16};
  core.warp_calls.call(*running_thread(), {WarpCall::Kind::kMma, ~0u, as_address(&operands), 0},
                       as_address(__builtin_return_address(0)));
}

}  // namespace cuflash::simt
