#include "list.h"

// CUFLASH_EXERCISE(namespace, the stage's own, name, pass, expected) each; CMake writes it.
#define CUFLASH_EXERCISE(space, own, ...) \
  namespace cuflash::space {              \
  extern const Stage kStage;              \
  }                                       \
  namespace cuflash::own {                \
  extern const Stage kStage;              \
  }
#include CUFLASH_EXERCISE_LIST
#undef CUFLASH_EXERCISE

namespace cuflash::exercises {

const std::vector<Entry>& entries() {
#define CUFLASH_EXERCISE(space, own, name, pass, expected) \
  {name, &space::kStage, &own::kStage, pass, expected},
  static const std::vector<Entry> list = {
#include CUFLASH_EXERCISE_LIST
  };
  return list;
}

}  // namespace cuflash::exercises
