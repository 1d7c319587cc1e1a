// Products of a warpgroup: each function issues all wgmma steps of a product as one group (stage
// 11_wgmma spells them out), so that a kernel reads like the formula.
//
// All 128 threads of the warpgroup call them together. Each function's comment names the part of a
// tile that it uses; the size of the accumulator determines the number of rows or columns of B. The
// product is complete, and the tiles have been read, after a ptx::wgmma_wait().
#ifndef CUFLASH_DEVICE_PRODUCTS_H_
#define CUFLASH_DEVICE_PRODUCTS_H_

#include "device/instruments/points.h"
#include "device/matrix_descriptor.h"
#include "device/mma_fragments.h"
#include "device/ptx/wgmma.h"
#include "device/registers.h"
#include "device/warpgroup.h"

namespace cuflash {

// Rounds accumulators to left operands: the same lanes hold the same elements (stage 13_ping_pong
// explains the use of opaque()).
template <class T, int kOperands, int kFragments>
__device__ __forceinline__ void pack_operands(MmaA::Registers (&rA)[kOperands],
                                              const float (&rS)[kFragments][4]) {
#pragma unroll
  for (int k = 0; k < kOperands; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const auto& s = rS[2 * k + e / 2];
      rA[k][e] = pack<T>(opaque(s[e % 2 * 2]), opaque(s[e % 2 * 2 + 1]));
    }
  }
}

// D = A Bᵀ: 64 rows of A from `a_row`, and rows of B from `b_row`. The sum runs over all columns.
template <class T, class TileA, class TileB, int kBlocks>
__device__ __forceinline__ void issue_abt(float (&rD)[kBlocks][4], const TileA& a, int a_row,
                                          const TileB& b, int b_row = 0,
                                          instruments::Line line = {}) {
  ptx::wgmma_fence(line);  // Earlier accesses to rD come before the products.
#pragma unroll
  for (int k = 0; k < TileB::kPanels * TileB::kPanelCols; k += kWgmmaK) {
    ptx::wgmma_m64k16<T, ptx::Major::kK>(rD, k_major(a, a_row, k), k_major(b, b_row, k), k > 0);
  }
  ptx::wgmma_commit(line);
}

// D += A B: A in registers, and all rows of B.
template <class T, class TileB, int kOperands, int kBlocks>
__device__ __forceinline__ void issue_ab(float (&rD)[kBlocks][4],
                                         const MmaA::Registers (&rA)[kOperands], const TileB& b,
                                         instruments::Line line = {}) {
  ptx::wgmma_fence(line);  // Earlier accesses to rD and rA come before the products.
#pragma unroll
  for (int k = 0; k < kOperands; ++k) {
    ptx::wgmma_m64k16<T, ptx::Major::kMN>(rD, rA[k], mn_major(b, kWgmmaK * k), true);
  }
  ptx::wgmma_commit(line);
}

// D += A B: 64 rows of A from `a_row`, and columns of B from `b_col`.
template <class T, class TileA, class TileB, int kBlocks>
__device__ __forceinline__ void issue_ab(float (&rD)[kBlocks][4], const TileA& a, int a_row,
                                         const TileB& b, int b_col, instruments::Line line = {}) {
  ptx::wgmma_fence(line);  // As above.
#pragma unroll
  for (int k = 0; k < TileB::kTileRows; k += kWgmmaK) {
    ptx::wgmma_m64k16<T, ptx::Major::kMN>(rD, k_major(a, a_row, k), mn_major(b, k, b_col), true);
  }
  ptx::wgmma_commit(line);
}

// D = Aᵀ B: 64 columns of A from `a_col`, and columns of B from `b_col`. The sum runs over all
// rows.
template <class T, class TileA, class TileB, int kBlocks>
__device__ __forceinline__ void issue_atb(float (&rD)[kBlocks][4], const TileA& a, int a_col,
                                          const TileB& b, int b_col, instruments::Line line = {}) {
  ptx::wgmma_fence(line);  // As above.
#pragma unroll
  for (int k = 0; k < TileB::kTileRows; k += kWgmmaK) {
    ptx::wgmma_m64k16<T, ptx::Major::kMN, ptx::Major::kMN>(rD, mn_major(a, k, a_col),
                                                           mn_major(b, k, b_col), k > 0);
  }
  ptx::wgmma_commit(line);
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_PRODUCTS_H_
