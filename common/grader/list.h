// The exercises that are linked into a program.
#ifndef CUFLASH_GRADER_LIST_H_
#define CUFLASH_GRADER_LIST_H_

#include <vector>

#include "cuflash/stage.h"

namespace cuflash::exercises {

struct Entry {
  const char* name;      // "1_mask"; in the check also what stands in its holes
  const Stage* stage;    // the stage with the exercise's kernel in it
  const Stage* own;      // the stage itself
  Pass pass;             // what the exercise is about
  const char* expected;  // in the check: "passed", "failed" or the id of a diagnosis
};

const std::vector<Entry>& entries();

}  // namespace cuflash::exercises

#endif  // CUFLASH_GRADER_LIST_H_
