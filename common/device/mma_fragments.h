// Fragments of mma.sync m16n8k16: which lane holds which element, and which row of 16 bytes each
// lane addresses for ldmatrix. The maps are those of the PTX manual. The proofs below check them
// against each other, tests/device on a GPU.
#ifndef CUFLASH_DEVICE_MMA_FRAGMENTS_H_
#define CUFLASH_DEVICE_MMA_FRAGMENTS_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cuflash {

// D += A · B: 16 × 8 += 16 × 16 · 16 × 8.
constexpr int kMmaM = 16, kMmaN = 8, kMmaK = 16;

// A fragment is a matrix spread over 32 lanes. A lane's element i is at row(lane, i), col(lane, i).
// A register of A or B holds two elements, the even one in its lower half: element i is half i % 2
// of register i / 2.

// The left operand, kMmaM × kMmaK.
struct MmaA {
  using Registers = std::uint32_t[4];
  static constexpr int kRows = kMmaM, kCols = kMmaK, kElements = 8;
  __host__ __device__ static constexpr int row(int lane, int i) { return lane / 4 + i / 2 % 2 * 8; }
  __host__ __device__ static constexpr int col(int lane, int i) {
    return lane % 4 * 2 + i % 2 + i / 4 * 8;
  }
};

// The right operand, kMmaK × kMmaN.
struct MmaB {
  using Registers = std::uint32_t[2];
  static constexpr int kRows = kMmaK, kCols = kMmaN, kElements = 4;
  __host__ __device__ static constexpr int row(int lane, int i) {
    return lane % 4 * 2 + i % 2 + i / 2 * 8;
  }
  __host__ __device__ static constexpr int col(int lane, int /*i*/) { return lane / 4; }
};

// The accumulator, kMmaM × kMmaN of f32: one element per register.
struct MmaAccumulator {
  using Registers = float[4];
  static constexpr int kRows = kMmaM, kCols = kMmaN, kElements = 4;
  __host__ __device__ static constexpr int row(int lane, int i) { return lane / 4 + i / 2 * 8; }
  __host__ __device__ static constexpr int col(int lane, int i) { return lane % 4 * 2 + i % 2; }
};

// One of the four matrices that ldmatrix loads: 8 × 8, the lane's two elements in one register.
// With .trans, row and column are exchanged.
struct LdMatrix {
  static constexpr int kRows = 8, kCols = 8, kElements = 2;
  __host__ __device__ static constexpr int row(int lane, int /*i*/) { return lane / 4; }
  __host__ __device__ static constexpr int col(int lane, int i) { return lane % 4 * 2 + i; }
};

// Rounds two floats and packs them into one register of an operand.
template <class T>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t bits;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&bits, &pair, sizeof bits);
  } else {
    static_assert(std::is_same_v<T, __nv_bfloat16>, "an operand's elements are f16 or bf16");
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &pair, sizeof bits);
  }
  return bits;
}

// Unpacks the two elements of an operand's register to floats.
template <class T>
__device__ __forceinline__ float2 unpack(std::uint32_t bits) {
  if constexpr (std::is_same_v<T, __half>) {
    __half2 pair;
    memcpy(static_cast<void*>(&pair), &bits, sizeof bits);
    return __half22float2(pair);
  } else {
    static_assert(std::is_same_v<T, __nv_bfloat16>, "an operand's elements are f16 or bf16");
    __nv_bfloat162 pair;
    memcpy(static_cast<void*>(&pair), &bits, sizeof bits);
    return __bfloat1622float2(pair);
  }
}

// Turns two accumulators, side by side, into a left operand of 16 × 16: every element is already in
// the right lane.
template <class T>
__device__ __forceinline__ void to_operand(MmaA::Registers& rA,
                                           const MmaAccumulator::Registers& left,
                                           const MmaAccumulator::Registers& right) {
  rA[0] = pack<T>(left[0], left[1]);
  rA[1] = pack<T>(left[2], left[3]);
  rA[2] = pack<T>(right[0], right[1]);
  rA[3] = pack<T>(right[2], right[3]);
}

// ---- Loads by ldmatrix -------------------------------------------------------------------------

// The row of 8 elements that each lane addresses for ldmatrix in a tile of 16 × 16 elements, whose
// rows are contiguous in memory. The four matrices are the tile's quarters.

// Down first: matrices 0 and 1 are the left half, 2 and 3 the right one.
struct QuartersDown {
  __host__ __device__ static constexpr int row(int lane) { return lane % 16; }
  __host__ __device__ static constexpr int col(int lane) { return lane / 16 * 8; }
};
// Across first: matrices 0 and 1 are the upper half, 2 and 3 the lower one.
struct QuartersAcross {
  __host__ __device__ static constexpr int row(int lane) { return lane / 16 * 8 + lane % 8; }
  __host__ __device__ static constexpr int col(int lane) { return lane / 8 % 2 * 8; }
};

// For each operand, the tile in memory, the order of its quarters and the instruction:
using LoadA = QuartersDown;              // A (Q in Q·Kᵀ): ldmatrix_x4
using LoadATransposed = QuartersAcross;  // Aᵀ (dS in dSᵀ·Q): ldmatrix_x4_trans
// B is 16 × 16 here: two operands, columns 0 to 7 in registers 0 and 1, columns 8 to 15 in
// registers 2 and 3.
using LoadBTransposed = QuartersAcross;  // Bᵀ (K in Q·Kᵀ): ldmatrix_x4
using LoadB = QuartersDown;              // B (V in P·V): ldmatrix_x4_trans

// ---- Proofs ------------------------------------------------------------------------------------

namespace fragment_proofs {

// True if exactly one lane holds each element of the matrix.
template <class Fragment>
constexpr bool covers_once() {
  bool held[Fragment::kRows][Fragment::kCols] = {};
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < Fragment::kElements; ++i) {
      bool& here = held[Fragment::row(lane, i)][Fragment::col(lane, i)];
      if (here) return false;
      here = true;
    }
  }
  return 32 * Fragment::kElements == Fragment::kRows * Fragment::kCols;
}
static_assert(covers_once<MmaA>() && covers_once<MmaB>() && covers_once<MmaAccumulator>() &&
                  covers_once<LdMatrix>(),
              "each element of a fragment is held exactly once");

// True if element i of A is element i % 4 of accumulator i / 4: the scores S = Q·Kᵀ of two
// neighbouring tiles of 8 keys are the left operand P of P·V in place.
constexpr bool accumulators_are_an_operand() {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < MmaA::kElements; ++i) {
      if (MmaA::row(lane, i) != MmaAccumulator::row(lane, i % 4)) return false;
      if (MmaA::col(lane, i) != MmaAccumulator::col(lane, i % 4) + i / 4 * kMmaN) return false;
    }
  }
  return true;
}
static_assert(accumulators_are_an_operand(), "P stays in the registers of S");

// True if ldmatrix gives each lane the elements of its operand: A, or two of B side by side. The
// operand or its transpose is row-major in memory; `trans` makes ldmatrix transpose its matrices.
template <class Fragment, class Load>
constexpr bool loads(bool trans, bool transposed_in_memory) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {  // the lane's elements in four registers
      const int r = LdMatrix::row(lane, i % 2), c = LdMatrix::col(lane, i % 2);
      const int named_by = i / 2 * 8 + (trans ? c : r);  // the lane that addresses the row
      const int row = Load::row(named_by);
      const int col = Load::col(named_by) + (trans ? r : c);
      const int operand = i / Fragment::kElements, element = i % Fragment::kElements;
      const int wanted_row = Fragment::row(lane, element);
      const int wanted_col = Fragment::col(lane, element) + operand * Fragment::kCols;
      if (row != (transposed_in_memory ? wanted_col : wanted_row)) return false;
      if (col != (transposed_in_memory ? wanted_row : wanted_col)) return false;
    }
  }
  return true;
}
static_assert(loads<MmaA, LoadA>(false, false), "ldmatrix_x4 loads A");
static_assert(loads<MmaA, LoadATransposed>(true, true),
              "ldmatrix_x4_trans loads A from its transpose");
static_assert(loads<MmaB, LoadBTransposed>(false, true), "ldmatrix_x4 loads B from its transpose");
static_assert(loads<MmaB, LoadB>(true, false), "ldmatrix_x4_trans loads B");

}  // namespace fragment_proofs

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_MMA_FRAGMENTS_H_
