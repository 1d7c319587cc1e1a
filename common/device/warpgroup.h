// The sizes of a warpgroup and of its products, wgmma. In the accumulator each of the four warps
// has 16 rows, in the order of MmaAccumulator (device/mma_fragments.h).
#ifndef CUFLASH_DEVICE_WARPGROUP_H_
#define CUFLASH_DEVICE_WARPGROUP_H_

namespace cuflash {

constexpr int kWarpgroupWarps = 4, kWarpgroupThreads = 32 * kWarpgroupWarps;

// D += A · B: 64 × N += 64 × 16 · 16 × N.
constexpr int kWgmmaM = 64, kWgmmaK = 16;

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_WARPGROUP_H_
