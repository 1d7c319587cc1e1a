// The score of a stage, if it differs from the problem's.
#ifndef CUFLASH_HARNESS_STAGE_SCORE_H_
#define CUFLASH_HARNESS_STAGE_SCORE_H_

#include "cuflash/stage.h"
#include "reference/score.h"

namespace cuflash::harness {

// The kScore in the stage's namespace, which the stage's reference.cpp defines; without that file,
// the unchanged score.
const reference::Score& score_of(const Stage& stage);

}  // namespace cuflash::harness

#endif  // CUFLASH_HARNESS_STAGE_SCORE_H_
