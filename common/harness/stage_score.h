// The attention that a stage computes, where it is another than the problem's.
#ifndef CUFLASH_HARNESS_STAGE_SCORE_H_
#define CUFLASH_HARNESS_STAGE_SCORE_H_

#include "cuflash/stage.h"
#include "reference/score.h"

namespace cuflash::harness {

// What reference.cpp of the stage defines, as kScore in the stage's namespace; without that file,
// the score as it is.
const reference::Score& score_of(const Stage& stage);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_STAGE_SCORE_H_
