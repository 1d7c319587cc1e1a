// 15_wgmma_backward: the shape of a block's work.
#pragma once

#include "device/dq_sum.h"
#include "device/mma_fragments.h"
#include "device/warpgroup.h"

namespace cuflash::wgmma_backward {

// The shape of a block's work. There is one block on an SM.
struct Shape {
  int keys;     // of a block
  int queries;  // of a tile
  int stages;   // tiles of Q and dO
};
constexpr Shape shape(int head_dim) {
  switch (head_dim) {
    case 32:
      return {128, 128, 2};  // 130 KB
    case 64:
      return {128, 128, 2};  // 194 KB; S and dP each take 64 of a consumer's 240 registers
    case 96:
      return {128, 128, 1};  // 209 KB; dK and dV together take 96
    case 128:
      return {128, 64, 2};  // 193 KB; dK and dV together take 128
    default:
      return {64, 64, 1};  // 209 KB; a consumer's halves of dK and dV together take 128
  }
}

template <int kHeadDim>
struct BackwardConfig {
  static constexpr Shape kShape = shape(kHeadDim);
  static constexpr int kOwned = kShape.keys, kStreamed = kShape.queries, kStages = kShape.stages;
  static constexpr int kConsumers = 2, kWarpgroups = 1 + kConsumers;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kWarps = kConsumers * kWarpgroupWarps;  // of the consumers
  // The consumers divide the keys. If there are only 64, they divide the queries of S and dP, and
  // the columns of dK and dV.
  static constexpr bool kByKeys = kOwned == kConsumers * kWgmmaM;
  static constexpr int kScoreCols = kByKeys ? kStreamed : kStreamed / kConsumers;
  static constexpr int kGradientCols = kByKeys ? kHeadDim : kHeadDim / kConsumers;
  using Dq = DqTile<kStreamed, kHeadDim>;
  static constexpr int kProducerRegisters = 24;  // of a thread
  static constexpr int kConsumerRegisters = consumer_registers(kConsumers, kProducerRegisters);

  using Scores = MmaAccumulator::Registers[kScoreCols / kMmaN];
  using Gradient = MmaAccumulator::Registers[kGradientCols / kMmaN];
};

}  // namespace cuflash::wgmma_backward
