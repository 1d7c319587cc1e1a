// PTX wgmma: the matrix product of a warpgroup (four warps, the first a multiple of four) with
// operands in shared memory. Compute capability 9.0, code for sm_90a.
//
// A product runs asynchronously. Between its issue and the wait for it, no code may access its
// accumulator or write to its operands, in registers or in shared memory. The manual also forbids
// reading A's registers. Stages 16 to 18 read them nevertheless, since nothing writes to them
// meanwhile.
#ifndef CUFLASH_DEVICE_PTX_WGMMA_H_
#define CUFLASH_DEVICE_PTX_WGMMA_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "device/instruments/points.h"
#include "device/ptx/matrix_descriptor.h"

namespace cuflash::ptx {

// Orders the threads' earlier accesses to a product's registers before the product. All threads
// must call it before the first of a series of products.
__device__ __forceinline__ void wgmma_fence(instruments::Line line = {}) {
  instruments::note(instruments::Kind::kFence, line);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Commits the products issued since the last commit as one group.
__device__ __forceinline__ void wgmma_commit(instruments::Line line = {}) {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  instruments::note(instruments::Kind::kCommit, line);
}

// Waits until at most the newest kPending groups are running. It names no accumulators: only ptxas,
// which tracks the registers of products, keeps their uses after the wait.
template <int kPending>
__device__ __forceinline__ void wgmma_wait(instruments::Line line = {}) {
  const instruments::Wait wait(instruments::Kind::kProducts, line, kPending);
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(kPending) : "memory");
}

// The dimension along which an operand, A (64 × 16) or B (16 × N), is contiguous in memory: the one
// summed over (K), or the other.
enum class Major { kK = 0, kMN = 1 };

// The registers of an accumulator, by its number of columns: in the text of an instruction, and as
// operands.
#define CUFLASH_D32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CUFLASH_D64 \
  CUFLASH_D32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CUFLASH_D96 \
  CUFLASH_D64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define CUFLASH_D128 \
  CUFLASH_D96 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CUFLASH_D160 \
  CUFLASH_D128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define CUFLASH_D176 CUFLASH_D160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define CUFLASH_D192 CUFLASH_D176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define CUFLASH_D224                                                                         \
  CUFLASH_D192                                                                               \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, " \
  "%111"
#define CUFLASH_D256                                                                       \
  CUFLASH_D224                                                                             \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, " \
  "%126, %127"
#define CUFLASH_D_BLOCK(i) "+f"(rD[i][0]), "+f"(rD[i][1]), "+f"(rD[i][2]), "+f"(rD[i][3])
#define CUFLASH_D_OPERANDS32 \
  CUFLASH_D_BLOCK(0), CUFLASH_D_BLOCK(1), CUFLASH_D_BLOCK(2), CUFLASH_D_BLOCK(3)
#define CUFLASH_D_OPERANDS64                                                        \
  CUFLASH_D_OPERANDS32, CUFLASH_D_BLOCK(4), CUFLASH_D_BLOCK(5), CUFLASH_D_BLOCK(6), \
      CUFLASH_D_BLOCK(7)
#define CUFLASH_D_OPERANDS96                                                         \
  CUFLASH_D_OPERANDS64, CUFLASH_D_BLOCK(8), CUFLASH_D_BLOCK(9), CUFLASH_D_BLOCK(10), \
      CUFLASH_D_BLOCK(11)
#define CUFLASH_D_OPERANDS128                                                          \
  CUFLASH_D_OPERANDS96, CUFLASH_D_BLOCK(12), CUFLASH_D_BLOCK(13), CUFLASH_D_BLOCK(14), \
      CUFLASH_D_BLOCK(15)
#define CUFLASH_D_OPERANDS160                                                           \
  CUFLASH_D_OPERANDS128, CUFLASH_D_BLOCK(16), CUFLASH_D_BLOCK(17), CUFLASH_D_BLOCK(18), \
      CUFLASH_D_BLOCK(19)
#define CUFLASH_D_OPERANDS176 CUFLASH_D_OPERANDS160, CUFLASH_D_BLOCK(20), CUFLASH_D_BLOCK(21)
#define CUFLASH_D_OPERANDS192 CUFLASH_D_OPERANDS176, CUFLASH_D_BLOCK(22), CUFLASH_D_BLOCK(23)
#define CUFLASH_D_OPERANDS224                                                           \
  CUFLASH_D_OPERANDS192, CUFLASH_D_BLOCK(24), CUFLASH_D_BLOCK(25), CUFLASH_D_BLOCK(26), \
      CUFLASH_D_BLOCK(27)
#define CUFLASH_D_OPERANDS256                                                           \
  CUFLASH_D_OPERANDS224, CUFLASH_D_BLOCK(28), CUFLASH_D_BLOCK(29), CUFLASH_D_BLOCK(30), \
      CUFLASH_D_BLOCK(31)

// A product of 64 × n × 16 from two descriptors, and one whose left operand is in registers. The
// numbers are the asm operands that follow the accumulator.
#define CUFLASH_WGMMA_SS(n, type, a_, b_, accumulate_, major_a_, major_b_)              \
  asm volatile(                                                                         \
      "{ .reg .pred accumulate;\n"                                                      \
      "setp.ne.b32 accumulate, %" #accumulate_                                          \
      ", 0;\n"                                                                          \
      "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" CUFLASH_D##n \
      "}, %" #a_ ", %" #b_ ", accumulate, 1, 1, %" #major_a_ ", %" #major_b_ "; }"      \
      : CUFLASH_D_OPERANDS##n                                                           \
      : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(accumulate)),                    \
        "n"(static_cast<int>(kMajorA)), "n"(static_cast<int>(kMajorB)))
#define CUFLASH_WGMMA_RS(n, type, a0, a1, a2, a3, b_, accumulate_, major_)                       \
  asm volatile(                                                                                  \
      "{ .reg .pred accumulate;\n"                                                               \
      "setp.ne.b32 accumulate, %" #accumulate_                                                   \
      ", 0;\n"                                                                                   \
      "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" CUFLASH_D##n          \
      "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b_ ", accumulate, 1, 1, %" #major_ "; }" \
      : CUFLASH_D_OPERANDS##n                                                                    \
      : "r"(rA[0]), "r"(rA[1]), "r"(rA[2]), "r"(rA[3]), "l"(b.bits),                             \
        "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(kMajorB)))

// True if there is a product of these operands.
template <class T, int kBlocks>
__host__ __device__ constexpr bool is_wgmma() {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>,
                "the operands of wgmma_m64k16 are f16 or bf16");
  static_assert(kBlocks == 4 || kBlocks == 8 || kBlocks == 12 || kBlocks == 16 || kBlocks == 20 ||
                    kBlocks == 22 || kBlocks == 24 || kBlocks == 32,
                "N is 32, 64, 96, 128, 160, 176, 192 or 256");
  return true;
}

// wgmma.mma_async.m64nNk16: D = A · B, or D += A · B if `accumulate`: 64 × N = 64 × 16 · 16 × N,
// N = 8 · kBlocks. D is in f32: each of the four warps holds 16 rows, one block of 8 columns after
// the other, in the order of MmaAccumulator (device/mma_fragments.h). All 128 threads must call it
// together.
template <class T, Major kMajorB, Major kMajorA = Major::kK, int kBlocks>
__device__ __forceinline__ void wgmma_m64k16(float (&rD)[kBlocks][4], MatrixDescriptor a,
                                             MatrixDescriptor b, bool accumulate) {
  static_assert(is_wgmma<T, kBlocks>());
#define CUFLASH_WGMMA(n, ...)                   \
  if constexpr (8 * kBlocks == n) {             \
    if constexpr (std::is_same_v<T, __half>) {  \
      CUFLASH_WGMMA_SS(n, "f16", __VA_ARGS__);  \
    } else {                                    \
      CUFLASH_WGMMA_SS(n, "bf16", __VA_ARGS__); \
    }                                           \
  }
  CUFLASH_WGMMA(32, 16, 17, 18, 19, 20)
  CUFLASH_WGMMA(64, 32, 33, 34, 35, 36)
  CUFLASH_WGMMA(96, 48, 49, 50, 51, 52)
  CUFLASH_WGMMA(128, 64, 65, 66, 67, 68)
  CUFLASH_WGMMA(160, 80, 81, 82, 83, 84)
  CUFLASH_WGMMA(176, 88, 89, 90, 91, 92)
  CUFLASH_WGMMA(192, 96, 97, 98, 99, 100)
  CUFLASH_WGMMA(256, 128, 129, 130, 131, 132)
#undef CUFLASH_WGMMA
}

// wgmma.mma_async.m64nNk16 as above, with A in registers: each warp holds its 16 rows in MmaA's
// order.
template <class T, Major kMajorB, int kBlocks>
__device__ __forceinline__ void wgmma_m64k16(float (&rD)[kBlocks][4], const std::uint32_t (&rA)[4],
                                             MatrixDescriptor b, bool accumulate) {
  static_assert(is_wgmma<T, kBlocks>());
#define CUFLASH_WGMMA(n, ...)                   \
  if constexpr (8 * kBlocks == n) {             \
    if constexpr (std::is_same_v<T, __half>) {  \
      CUFLASH_WGMMA_RS(n, "f16", __VA_ARGS__);  \
    } else {                                    \
      CUFLASH_WGMMA_RS(n, "bf16", __VA_ARGS__); \
    }                                           \
  }
  CUFLASH_WGMMA(32, 16, 17, 18, 19, 20, 21, 22)
  CUFLASH_WGMMA(64, 32, 33, 34, 35, 36, 37, 38)
  CUFLASH_WGMMA(96, 48, 49, 50, 51, 52, 53, 54)
  CUFLASH_WGMMA(128, 64, 65, 66, 67, 68, 69, 70)
  CUFLASH_WGMMA(160, 80, 81, 82, 83, 84, 85, 86)
  CUFLASH_WGMMA(176, 88, 89, 90, 91, 92, 93, 94)
  CUFLASH_WGMMA(192, 96, 97, 98, 99, 100, 101, 102)
  CUFLASH_WGMMA(256, 128, 129, 130, 131, 132, 133, 134)
#undef CUFLASH_WGMMA
}

#undef CUFLASH_WGMMA_SS
#undef CUFLASH_WGMMA_RS

}  // namespace cuflash::ptx

#endif  // CUFLASH_DEVICE_PTX_WGMMA_H_
