// 14_persistent: the shape of a block's work.
#pragma once

#include "device/warpgroup.h"

namespace cuflash::persistent {

// The shape of a block's work. There is one block per SM.
struct Shape {
  int keys;       // per tile
  int consumers;  // warpgroups that compute, 64 queries each
  int stages;     // buffers of K, and as many of V
  int q_stages;   // buffers of Q, which later hold O
};
constexpr Shape shape(int head_dim) {
  switch (head_dim) {
    case 32:
      return {64, 4, 6, 2};  // 80 KB
    case 64:
      return {64, 4, 6, 2};  // 160 KB; S takes 32 of a consumer's 112 registers, P 16, O 32
    case 96:
      return {96, 3, 4, 2};  // 216 KB; S takes 48 of 160 registers, P 24, O 48
    case 128:
      return {64, 3, 4, 2};  // 224 KB; S takes 32, P 16, O 64
    default:
      return {64, 2, 2, 1};  // 192 KB; O takes 128 registers
  }
}

template <int kHeadDim>
struct Config {
  static constexpr Shape kShape = shape(kHeadDim);
  static constexpr int kStages = kShape.stages, kQStages = kShape.q_stages;
  static constexpr int kConsumers = kShape.consumers, kWarpgroups = 1 + kConsumers;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kBlockQ = kConsumers * kWgmmaM, kBlockKV = kShape.keys;
  static constexpr int kProducerRegisters = 24;  // of a thread
  static constexpr int kConsumerRegisters = consumer_registers(kConsumers, kProducerRegisters);
  static_assert(kStages >= 2, "a step holds V of tile t + 1 and waits for K of tile t - 1");
};

}  // namespace cuflash::persistent
