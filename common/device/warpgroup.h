// The sizes of a warpgroup and of its products (wgmma), and the roles of a block's warpgroups. Each
// of the four warps holds 16 rows of the accumulator, in the order of MmaAccumulator
// (device/mma_fragments.h).
#ifndef CUFLASH_DEVICE_WARPGROUP_H_
#define CUFLASH_DEVICE_WARPGROUP_H_

#include <cuda_runtime.h>

namespace cuflash {

constexpr int kWarpgroupWarps = 4, kWarpgroupThreads = 32 * kWarpgroupWarps;

// D += A · B: 64 × N += 64 × 16 · 16 × N.
constexpr int kWgmmaM = 64, kWgmmaK = 16;

// The first warpgroup requests tiles; the others compute (stage 12_warp_specialized explains the
// roles and the registers).
enum class WarpRole { kProducer, kConsumer };

// The registers per consumer thread once the producer's threads keep only `of_producer`, for a
// block that has an SM and its 65,536 registers to itself. With more, setmaxnreg would wait
// forever.
constexpr int consumer_registers(int consumers, int of_producer) {
  const int warpgroups = 1 + consumers;
  const int at_launch = 65536 / (warpgroups * kWarpgroupThreads) / 8 * 8;
  return (warpgroups * at_launch - of_producer) / consumers / 8 * 8;
}

// The first row of tile `tile` of a head. The last tile ends at the end of the head, rounded up to
// 64 rows, so that only the first tile may be short, which sees the fewest keys under a causal
// mask. A short tile begins at a negative row, and its first warpgroups have no queries.
__host__ __device__ constexpr int first_query(int queries, int rows, int tiles, int tile) {
  return (queries + kWgmmaM - 1) / kWgmmaM * kWgmmaM - (tiles - tile) * rows;
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_WARPGROUP_H_
