// The loops, by their compute capability. Their lengths are chosen so that a launch takes about 2
// ms on an H200, of which the start of a kernel, some microseconds, is far below 1 %.
#ifndef CUFLASH_BENCH_CEILINGS_LOOPS_H_
#define CUFLASH_BENCH_CEILINGS_LOOPS_H_

#include "ceilings/ceiling.h"
#include "cuflash/dtype.h"

namespace cuflash::bench {

// ---- Compute capability 7.5 --------------------------------------------------------------------

// Multiply-adds of f32, with the same two operands, or with the operands of a register tile of 8
// × 4.
enum class FmaOperands { kTheSame, kRegisterTile };
Loop multiply_adds(const Chip& chip, FmaOperands operands);
Loop exp2s(const Chip& chip);

enum class SharedLoad { kLdmatrix, kLdmatrixTrans, k16Bytes };
Loop shared_loads(const Chip& chip, SharedLoad load);

Loop copy(const Chip& chip);                                 // read and written bytes
Loop additions(const Chip& chip, std::size_t target_bytes);  // one f32 per lane

// ---- Compute capability 8.0 --------------------------------------------------------------------

// mma.sync m16n8k16 by `warps` warps per SM. Per 16 products of a warp, each of its lanes also
// computes `exp2s` exp2: 0, 4, 8 or 16.
Loop products(const Chip& chip, DType dtype, int warps, int exp2s);

// ---- Compute capability 9.0 --------------------------------------------------------------------

Loop vector_additions(const Chip& chip,
                      std::size_t target_bytes);  // four neighbouring f32 per lane

// ---- sm_90a ------------------------------------------------------------------------------------

// wgmma m64k16 of this many columns, 64 or 256, by two warpgroups per SM. The right operand lies in
// shared memory.
enum class LeftOperand { kShared, kRegisters };
Loop warpgroup_products(const Chip& chip, DType dtype, LeftOperand left, int columns);
// Such products of f16 with 256 columns and the left operand in registers, which overlap one exp2
// per 256 or 512 of their FLOPs.
Loop warpgroup_products_above_exp2s(const Chip& chip, int flops_of_exp2);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_CEILINGS_LOOPS_H_
