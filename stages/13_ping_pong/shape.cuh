// 13_ping_pong: the shape of a block's work.
#pragma once

#include "device/warpgroup.h"

namespace cuflash::ping_pong {

// The shape of a block's work. There is one block per SM.
struct Shape {
  int keys;       // per tile
  int consumers;  // warpgroups that compute, 64 queries each
  int stages;     // buffers of K, and as many of V
  bool turns;     // True if consumers take turns at issuing products: turns pay where a tile's
                  // exponentials take at least as long as its products
};
constexpr Shape shape(int head_dim) {
  switch (head_dim) {
    case 32:
      return {128, 3, 3, true};  // 60 KB
    case 64:
      return {128, 3, 3, true};  // 120 KB; S takes 64 of a consumer's 160 registers, P 32, O 32
    case 96:
      return {96, 3, 3, false};  // 144 KB; S takes 48, P 24, O 48
    case 128:
      return {64, 3, 3, false};  // 144 KB; S takes 32, P 16, O 64
    default:
      return {64, 2, 2, false};  // 192 KB; O takes 128 registers
  }
}

template <int kHeadDim>
struct Config {
  static constexpr Shape kShape = shape(kHeadDim);
  static constexpr int kStages = kShape.stages;
  static constexpr int kConsumers = kShape.consumers, kWarpgroups = 1 + kConsumers;
  static constexpr int kThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kBlockQ = kConsumers * kWgmmaM, kBlockKV = kShape.keys;
  static constexpr int kProducerRegisters = 24;  // of a thread
  static constexpr int kConsumerRegisters = consumer_registers(kConsumers, kProducerRegisters);
  static constexpr int kTurn = 1;  // consumer c waits for its turn at named barrier kTurn + c
  static_assert(kStages >= 2, "a step holds V of tile t + 1 and waits for K of tile t - 1");
};

}  // namespace cuflash::ping_pong
