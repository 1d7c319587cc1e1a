// Products of warpgroups (wgmma), alone or overlapped with exp2.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "ceilings/loops.h"
#include "ceilings/on_sm.h"
#include "device/matrix_descriptor.h"
#include "device/mma_fragments.h"
#include "device/ptx/exp2.h"
#include "device/ptx/tensor_copy.h"
#include "device/ptx/wgmma.h"
#include "device/registers.h"
#include "device/shared_memory.h"
#include "device/swizzle.h"
#include "device/warpgroup.h"

namespace cuflash::bench {
namespace {

constexpr int kWarpgroups = 2;
constexpr int kTileColumns = 256;  // of a warpgroup's results, 128 registers per thread
constexpr int kTileK = 64, kSteps = kTileK / kWgmmaK;
constexpr int kTimes = 4;  // multiplications of the tiles per round
constexpr double kWarpFlops = 2. * kMmaM * kTileColumns * kTileK * kTimes;  // per round
constexpr int kNumbers = 16;  // per thread, of which exp2 is computed

template <class T>
struct Operands {
  SwizzledTile<T, kWarpgroups * kWgmmaM, kTileK> sA;
  SwizzledTile<T, kTileColumns, kTileK> sB;  // by columns, as K in Q · Kᵀ
};

template <class Tile>
__device__ __forceinline__ void fill(Tile& tile, unsigned seed) {
  constexpr int kElements = sizeof(tile.panels) / sizeof(tile.panels[0][0][0]);
  for (unsigned i = threadIdx.x; i < kElements; i += blockDim.x) {
    (&tile.panels[0][0][0])[i] = noise(seed + i);
  }
}

// Each step multiplies 16 columns of a warpgroup's rows of A by 16 rows of B, in products of
// kColumns columns. A round is one group of products. While it runs, each thread computes kExp2s
// exp2, and the next group is issued.
template <class T, LeftOperand kLeft, int kColumns, int kExp2s>
__global__ void __launch_bounds__(kWarpgroups* kWarpgroupThreads, 1)
    multiply_warpgroups(LoopOutput out, int rounds) {
  constexpr int kProducts = kTileColumns / kColumns;  // independent products per step
  auto& operands = shared_storage<Operands<T>>();
  fill(operands.sA, 0);
  fill(operands.sB, kWarpgroups * kWgmmaM * kTileK);
  ptx::fence_proxy_async();  // The products read these writes.
  const int warpgroup = uniform(threadIdx.x / kWarpgroupThreads);
  MmaA::Registers rA[kSteps];
  for (int k = 0; k < kSteps; ++k) {
    for (int r = 0; r < 4; ++r) {
      const unsigned seed = 8 * (threadIdx.x * kSteps + k) + 2 * r;
      rA[k][r] = pack<T>(noise(seed), noise(seed + 1));
    }
  }
  MmaAccumulator::Registers rD[kProducts][kColumns / kMmaN] = {};
  float x[kNumbers];
  for (int i = 0; i < kNumbers; ++i) x[i] = noise(kNumbers * threadIdx.x + i);

  const long long start = start_clock();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps * kTimes; ++step) {
      const int k = step % kSteps;
#pragma unroll
      for (int i = 0; i < kProducts; ++i) {
        const ptx::MatrixDescriptor b = k_major(operands.sB, i * kColumns, k * kWgmmaK);
        if constexpr (kLeft == LeftOperand::kRegisters) {
          ptx::wgmma_m64k16<T, ptx::Major::kK>(rD[i], rA[k], b, true);
        } else {
          const ptx::MatrixDescriptor a = k_major(operands.sA, warpgroup * kWgmmaM, k * kWgmmaK);
          ptx::wgmma_m64k16<T, ptx::Major::kK>(rD[i], a, b, true);
        }
      }
    }
    ptx::wgmma_commit();
#pragma unroll
    for (int i = 0; i < kExp2s; ++i) x[i % kNumbers] = ptx::exp2(-x[i % kNumbers]);
    ptx::wgmma_wait<1>();
  }
  ptx::wgmma_wait<0>();
  const long long clocks = stop_clock(start);

  float sum = 0.f;
  for (const auto& product : rD) {
    for (const auto& r : product) sum += r[0] + r[1] + r[2] + r[3];
  }
  for (const float y : x) sum += y;
  keep(out, sum, clocks);
}

// With an exp2 per kFlopsOfExp2 FLOPs; 0: without exp2.
template <class T, LeftOperand kLeft, int kColumns, int kFlopsOfExp2 = 0>
Loop loop(const Chip& chip) {
  constexpr int kRounds = 800;
  constexpr int kExp2s = kFlopsOfExp2 > 0 ? int(kWarpFlops / kLanes) / kFlopsOfExp2 : 0;
  const bool whole = kLeft == LeftOperand::kShared && kColumns == kTileColumns;
  std::vector<Work> work = {{Unit::kFlop, kWarpFlops, whole ? "" : "wgmma_f16"}};
  if (kExp2s > 0) work.push_back({Unit::kExp2, double(kLanes) * kExp2s, "exp2"});
  return loop_on_sm(chip, multiply_warpgroups<T, kLeft, kColumns, kExp2s>,
                    kWarpgroups * kWarpgroupWarps, kRounds, std::move(work));
}

}  // namespace

Loop warpgroup_products(const Chip& chip, DType dtype, LeftOperand left, int columns) {
  constexpr auto kShared = LeftOperand::kShared, kRegisters = LeftOperand::kRegisters;
  if (dtype == CUFLASH_F16 && left == kShared && columns == 256) {
    return loop<__half, kShared, 256>(chip);
  }
  if (dtype == CUFLASH_F16 && left == kShared && columns == 64) {
    return loop<__half, kShared, 64>(chip);
  }
  if (dtype == CUFLASH_F16 && left == kRegisters && columns == 256) {
    return loop<__half, kRegisters, 256>(chip);
  }
  if (dtype == CUFLASH_F16 && left == kRegisters && columns == 64) {
    return loop<__half, kRegisters, 64>(chip);
  }
  if (dtype == CUFLASH_BF16 && left == kShared && columns == 256) {
    return loop<__nv_bfloat16, kShared, 256>(chip);
  }
  throw std::logic_error("there is no such loop of products");
}

Loop warpgroup_products_above_exp2s(const Chip& chip, int flops_of_exp2) {
  if (flops_of_exp2 == 512) return loop<__half, LeftOperand::kRegisters, 256, 512>(chip);
  if (flops_of_exp2 == 256) return loop<__half, LeftOperand::kRegisters, 256, 256>(chip);
  throw std::logic_error("there is no such loop of products and exp2");
}

}  // namespace cuflash::bench
