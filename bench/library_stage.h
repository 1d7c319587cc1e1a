// A stage of another build of the library, which is loaded in addition to this program's own.
#ifndef CUFLASH_BENCH_LIBRARY_STAGE_H_
#define CUFLASH_BENCH_LIBRARY_STAGE_H_

#include <string>

#include "cuflash/stage.h"

namespace cuflash::bench {

inline constexpr int kLibraries = 2;

// Loads the library at this path as number n, instead of an earlier one, whose stage becomes
// invalid. Returns a stage of this name whose passes call the library's cuflash_forward() and
// cuflash_backward(); of the passes' facts it has only the workspace. Throws if the file is not
// such a library.
Stage library_stage(int n, const std::string& path, const std::string& name);

// True if the stage of library n, which library_stage() has loaded, can run this problem here.
Support library_supports(int n, Pass pass, const Problem& problem);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LIBRARY_STAGE_H_
