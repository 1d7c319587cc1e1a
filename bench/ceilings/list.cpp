#include "ceilings/ceiling.h"
#include "ceilings/loops.h"

namespace cuflash::bench {
namespace {

auto products_by(DType dtype, int warps, int exp2s) {
  return [=](const Chip& chip) { return products(chip, dtype, warps, exp2s); };
}

auto warpgroup_products_by(DType dtype, LeftOperand left, int columns) {
  return [=](const Chip& chip) { return warpgroup_products(chip, dtype, left, columns); };
}

auto warpgroup_products_above(int flops_of_exp2) {
  return [=](const Chip& chip) { return warpgroup_products_above_exp2s(chip, flops_of_exp2); };
}

auto multiply_adds_of(FmaOperands operands) {
  return [=](const Chip& chip) { return multiply_adds(chip, operands); };
}

auto loads_by(SharedLoad load) {
  return [=](const Chip& chip) { return shared_loads(chip, load); };
}

using Additions = Loop(const Chip&, std::size_t target_bytes);

auto within_l2(Additions* add) {
  return [=](const Chip& chip) { return add(chip, target_bytes(chip.l2_bytes).within_l2); };
}

auto beyond_l2(Additions* add) {
  return [=](const Chip& chip) { return add(chip, target_bytes(chip.l2_bytes).beyond_l2); };
}

}  // namespace

const std::vector<Ceiling>& ceilings() {
  static const std::vector<Ceiling> list = {
      {"mma_f16",
       "mma.sync m16n8k16 of f16, 16 warps per SM",
       {80},
       products_by(CUFLASH_F16, 16, 0)},
      {"mma_f16_8_warps", "the same, 8 warps per SM", {80}, products_by(CUFLASH_F16, 8, 0)},
      {"mma_f16_4_warps", "the same, 4 warps per SM", {80}, products_by(CUFLASH_F16, 4, 0)},
      {"mma_bf16",
       "mma.sync m16n8k16 of bf16, 16 warps per SM",
       {80},
       products_by(CUFLASH_BF16, 16, 0)},
      {"wgmma_f16",
       "wgmma m64n256k16 of f16, operands in shared memory",
       {90, true},
       warpgroup_products_by(CUFLASH_F16, LeftOperand::kShared, 256)},
      {"wgmma_f16_registers",
       "the same, the left operand in registers",
       {90, true},
       warpgroup_products_by(CUFLASH_F16, LeftOperand::kRegisters, 256)},
      {"wgmma_f16_n64",
       "wgmma m64n64k16 of f16, operands in shared memory",
       {90, true},
       warpgroup_products_by(CUFLASH_F16, LeftOperand::kShared, 64)},
      {"wgmma_f16_n64_registers",
       "the same, the left operand in registers",
       {90, true},
       warpgroup_products_by(CUFLASH_F16, LeftOperand::kRegisters, 64)},
      {"wgmma_bf16",
       "wgmma m64n256k16 of bf16, operands in shared memory",
       {90, true},
       warpgroup_products_by(CUFLASH_BF16, LeftOperand::kShared, 256)},
      {"ffma", "f32 multiply-adds", {75}, multiply_adds_of(FmaOperands::kTheSame)},
      {"ffma_tile",
       "f32 multiply-adds of a register tile of 8 × 4",
       {75},
       multiply_adds_of(FmaOperands::kRegisterTile)},
      {"exp2", "exp2 alone", {75}, exp2s},
      {"mma_exp2_512",
       "f16 products, and an exp2 for each 512 FLOPs of them",
       {80},
       products_by(CUFLASH_F16, 16, 4)},
      {"mma_exp2_256", "the same for each 256", {80}, products_by(CUFLASH_F16, 16, 8)},
      {"mma_exp2_128", "the same for each 128", {80}, products_by(CUFLASH_F16, 16, 16)},
      {"wgmma_exp2_512",
       "products of wgmma_f16_registers, and an exp2 for each 512 FLOPs of them",
       {90, true},
       warpgroup_products_above(512)},
      {"wgmma_exp2_256", "the same for each 256", {90, true}, warpgroup_products_above(256)},
      {"ldmatrix", "shared memory by ldmatrix.x4", {75}, loads_by(SharedLoad::kLdmatrix)},
      {"ldmatrix_trans",
       "shared memory by ldmatrix.x4.trans",
       {75},
       loads_by(SharedLoad::kLdmatrixTrans)},
      {"shared_16_bytes", "shared memory, 16 bytes per lane", {75}, loads_by(SharedLoad::k16Bytes)},
      {"copy", "global memory: a copy, read and written bytes", {75}, copy},
      {"add_l2", "f32 additions into L2", {75}, within_l2(additions)},
      {"add_beyond_l2", "f32 additions into more memory than L2", {75}, beyond_l2(additions)},
      {"add4_l2", "f32 additions into L2, 16 bytes per lane", {90}, within_l2(vector_additions)},
      {"add4_beyond_l2",
       "f32 additions into more than L2, 16 bytes per lane",
       {90},
       beyond_l2(vector_additions)},
  };
  return list;
}

}  // namespace cuflash::bench
