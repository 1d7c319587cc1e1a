// A table of the memory that attention needs besides its tensors: one head of head_dim 64 in f16 at
// several lengths, standard attention (01_naive) beside the library's own choice.
#ifndef CUFLASH_TESTS_SUPPORT_MEMORY_TABLE_H_
#define CUFLASH_TESTS_SUPPORT_MEMORY_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "cuflash/flash_attention.h"
#include "cuflash/stage.h"
#include "cuflash/workload.h"

namespace cuflash {

// One entry of the table.
struct MemoryEntry {
  Pass pass;
  const char* stage;  // null: the library's own choice
  Problem problem;
  std::size_t bytes;  // of the workspace, by the formula
};

// Standard attention keeps the matrix S, and in the backward pass P, dS and delta. The library's
// own choice keeps nothing in the forward pass, and in the backward pass LSE, delta and dQ. On
// compute capability 9.0 it is 18_dq_on_the_way, or 17_persistent_backward for the same bits in
// every run, with two counts for each 128 queries and one for all; from 8.0 on 09_async_copy, with
// a slice of dQ for each 128 keys of a single head, at most 16. Everything takes 4 bytes.
inline std::size_t formula_bytes(Pass pass, const Problem& p, const char* stage) {
  const std::size_t length = std::size_t(p.seq_q), tiles = length / 128;
  if (stage != nullptr) {
    return pass == CUFLASH_FORWARD ? 4 * length * length : 4 * (2 * length * length + length);
  }
  if (pass == CUFLASH_FORWARD) return 0;
  if (chosen_stage(pass, p) == std::string("18_dq_on_the_way")) {
    return 4 * (length * (2 + 64) + 2 * tiles + 1);
  }
  return 4 * length * (2 + 64 * std::min(tiles, std::size_t{16}));
}

inline std::vector<MemoryEntry> memory_table() {
  std::vector<MemoryEntry> table;
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    for (const char* stage : {"01_naive", static_cast<const char*>(nullptr)}) {
      for (const int length : {1024, 4096, 16384, 65536}) {
        const Problem problem = {1, 1, 1, length, length, 64, CUFLASH_F16, false, 0.125f};
        table.push_back({pass, stage, problem, formula_bytes(pass, problem, stage)});
      }
    }
  }
  return table;
}

// "forward_01_naive_1024": the entry's name in the properties that a test records.
inline std::string entry_name(const MemoryEntry& entry) {
  return std::string(pass_name(entry.pass)) + '_' +
         (entry.stage != nullptr ? entry.stage : "chosen") + '_' +
         std::to_string(entry.problem.seq_q);
}

}  // namespace cuflash

#endif  // CUFLASH_TESTS_SUPPORT_MEMORY_TABLE_H_
