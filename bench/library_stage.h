// A stage of another build of the library, which is loaded beside this program's own.
#ifndef CUFLASH_BENCH_LIBRARY_STAGE_H_
#define CUFLASH_BENCH_LIBRARY_STAGE_H_

#include <string>

#include "cuflash/stage.h"

namespace cuflash::bench {

inline constexpr int kLibraries = 2;

// Loads the library at this path as number n, in place of an earlier one, whose stage is then no
// longer valid, and returns its stage of this name: a stage whose passes call cuflash_forward() and
// cuflash_backward() there. Of their facts it has only the workspace. Throws if this is no such
// library.
Stage library_stage(int n, const std::string& path, const std::string& name);

// Whether the stage of library n, which library_stage() has loaded, can run this problem here.
Support library_supports(int n, Pass pass, const Problem& problem);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LIBRARY_STAGE_H_
