// The stages and the facts of their passes.
#ifndef CUFLASH_BENCH_LADDER_STAGE_LIST_H_
#define CUFLASH_BENCH_LADDER_STAGE_LIST_H_

#include <string>

namespace cuflash::bench {

// Prints a table of the stages; if `json` names a file, writes that instead: an array with an
// object for each pass.
void list_stages(const std::string& json);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_LADDER_STAGE_LIST_H_
