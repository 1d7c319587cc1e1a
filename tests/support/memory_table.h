// A table of the memory that attention needs besides its tensors: one head of head_dim 64 in f16 at
// several lengths, standard attention (01_naive) beside the library's own choice.
#ifndef CUFLASH_TESTS_SUPPORT_MEMORY_TABLE_H_
#define CUFLASH_TESTS_SUPPORT_MEMORY_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <vector>

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
// choice from compute capability 8.0 on, 09_async_copy, keeps nothing in the forward pass. In the
// backward pass it keeps LSE, delta and, with a single head, a slice of dQ for each 128 keys, at
// most 16. All of it is f32. On 9.0 other stages are chosen, which need less but do not take all
// strides: the library states what a call may need, with any strides.
inline std::size_t formula_bytes(Pass pass, const char* stage, std::size_t length) {
  const std::size_t dq = std::min(length / 128, std::size_t{16}) * 64;  // floats of a row
  if (stage == nullptr) return pass == CUFLASH_FORWARD ? 0 : 4 * length * (2 + dq);
  return pass == CUFLASH_FORWARD ? 4 * length * length : 4 * (2 * length * length + length);
}

inline std::vector<MemoryEntry> memory_table() {
  std::vector<MemoryEntry> table;
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    for (const char* stage : {"01_naive", static_cast<const char*>(nullptr)}) {
      for (const int length : {1024, 4096, 16384, 65536}) {
        const Problem problem = {1, 1, 1, length, length, 64, CUFLASH_F16, false, 0.125f};
        table.push_back({pass, stage, problem, formula_bytes(pass, stage, std::size_t(length))});
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
