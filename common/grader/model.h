// Attention in double precision, with a switch for every classical mistake.
#ifndef CUFLASH_GRADER_MODEL_H_
#define CUFLASH_GRADER_MODEL_H_

#include <bitset>

#include "harness/stage_call.h"

namespace cuflash::exercises {

enum class Mistake {
#define CUFLASH_MISTAKE(name, ...) name,
#include "mistakes.inc"
#undef CUFLASH_MISTAKE
  kCount
};
using Mistakes = std::bitset<static_cast<std::size_t>(Mistake::kCount)>;

// How a stage walks through the scores; some mistakes show only then.
struct Walk {
  int block_q = 0, block_kv = 0;  // tiles; 0: none, a row is walked whole
  bool masks_output = false;      // P V asks for the mask again, so a hidden key never reaches O
  bool after_softmax = false;     // LSE is right: a mistake in the mask is in P V alone
  int mask_q = 1, mask_kv = 1;    // the tile, in the kernel whose mask is looked at
  bool fragments = false;         // tensor cores: operands are of the dtype, in blocks of 16 × 16
};

// What a stage with these mistakes writes, rounded to the dtype. Overflow is float's.
harness::Outputs model(Pass pass, const Problem& problem, const harness::Inputs& inputs,
                       const Walk& walk, const Mistakes& mistakes);

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_MODEL_H_
