// The CPU simulator's wgmma: a product takes effect at the wait for its group, and not before.
#ifndef CUFLASH_SIMT_DEVICE_PTX_WGMMA_H_
#define CUFLASH_SIMT_DEVICE_PTX_WGMMA_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "device/instruments/points.h"
#include "device/ptx/matrix_descriptor.h"

namespace cuflash::simt {

// A thread's operands of a product of its warpgroup.
struct ProductOperands {
  float* d;  // 4 · blocks
  int blocks;
  const std::uint32_t* a_registers;  // null: A lies in shared memory, at `a`
  ptx::MatrixDescriptor a, b;
  bool a_mn_major, b_mn_major, bfloat16, accumulate;
};

// These functions wait for all 128 threads of the warpgroup. They do not order accesses to memory.
void fence_product_registers();
void issue_product(const ProductOperands& operands);
void commit_products();
// Waits for all of the warpgroup's groups except the last `pending`.
void wait_for_products(int pending);

}  // namespace cuflash::simt

namespace cuflash::ptx {

enum class Major { kK = 0, kMN = 1 };

__forceinline__ void wgmma_fence(instruments::Line = {}) { simt::fence_product_registers(); }
__forceinline__ void wgmma_commit(instruments::Line = {}) { simt::commit_products(); }
template <int kPending>
__forceinline__ void wgmma_wait() {
  static_assert(kPending >= 0 && kPending < 8, "wait_group takes a number of groups from 0 to 7");
  simt::wait_for_products(kPending);
}

template <class T, int kBlocks>
constexpr bool is_wgmma() {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>,
                "the operands of wgmma_m64k16 are f16 or bf16");
  static_assert(kBlocks == 4 || kBlocks == 8 || kBlocks == 12 || kBlocks == 16 || kBlocks == 20 ||
                    kBlocks == 22 || kBlocks == 24 || kBlocks == 32,
                "N is 32, 64, 96, 128, 160, 176, 192 or 256");
  return true;
}

template <class T, Major kMajorB, Major kMajorA = Major::kK, int kBlocks>
__forceinline__ void wgmma_m64k16(float (&rD)[kBlocks][4], MatrixDescriptor a, MatrixDescriptor b,
                                  bool accumulate) {
  static_assert(is_wgmma<T, kBlocks>());
  simt::issue_product({&rD[0][0], kBlocks, nullptr, a, b, kMajorA == Major::kMN,
                       kMajorB == Major::kMN, std::is_same_v<T, __nv_bfloat16>, accumulate});
}

template <class T, Major kMajorB, int kBlocks>
__forceinline__ void wgmma_m64k16(float (&rD)[kBlocks][4], const std::uint32_t (&rA)[4],
                                  MatrixDescriptor b, bool accumulate) {
  static_assert(is_wgmma<T, kBlocks>());
  simt::issue_product({&rD[0][0],
                       kBlocks,
                       rA,
                       {},
                       b,
                       false,
                       kMajorB == Major::kMN,
                       std::is_same_v<T, __nv_bfloat16>,
                       accumulate});
}

}  // namespace cuflash::ptx

#endif  // CUFLASH_SIMT_DEVICE_PTX_WGMMA_H_
