#include "list.h"

// CUFLASH_EXERCISE(namespace, name, pass, expected) each; CMake writes it.
#define CUFLASH_EXERCISE(space, ...) \
  namespace cuflash::space {         \
  extern const Stage kStage;         \
  }
#include CUFLASH_EXERCISE_LIST
#undef CUFLASH_EXERCISE

namespace cuflash::exercises {

const std::vector<Entry>& entries() {
#define CUFLASH_EXERCISE(space, name, pass, expected) {name, &space::kStage, pass, expected},
  static const std::vector<Entry> list = {
#include CUFLASH_EXERCISE_LIST
  };
  return list;
}

}  // namespace cuflash::exercises
