// 18_dq_on_the_way: the shape of a block's work.
#pragma once

#include "device/dq_sum.h"
#include "device/mma_fragments.h"
#include "device/tensor.h"
#include "device/warpgroup.h"

namespace cuflash::dq_on_the_way {

// The shape of a block's work. There is one block on an SM.
struct Shape {
  int keys;     // of a block
  int queries;  // of a tile
  int stages;   // tiles of Q and dO
};
constexpr Shape shape(int head_dim) {
  switch (head_dim) {
    case 32:
      return {128, 128, 2};  // 139 KB
    case 64:
      return {128, 128, 2};  // 211 KB
    default:
      return {128, 64, 2};  // 226 KB; dK and dV together take 128 of a consumer's 232 registers
  }
}

template <int kHeadDim>
struct BackwardConfig {
  static constexpr Shape kShape = shape(kHeadDim);
  static constexpr int kOwned = kShape.keys, kStreamed = kShape.queries, kStages = kShape.stages;
  static constexpr int kConsumers = 2, kWarpgroups = 1 + kConsumers;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kWarps = kConsumers * kWarpgroupWarps;  // of the consumers
  using Dq = DqTile<kStreamed, kHeadDim>;
  static constexpr int kProducerRegisters = 40;  // of a thread
  static constexpr int kConsumerRegisters = consumer_registers(kConsumers, kProducerRegisters);

  using Scores = MmaAccumulator::Registers[kStreamed / kMmaN];
  using Gradient = MmaAccumulator::Registers[kHeadDim / kMmaN];
};

}  // namespace cuflash::dq_on_the_way
