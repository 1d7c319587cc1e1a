/// @file stage.h
/// A stage of the ladder as data: its name, what it teaches, what it can do, and its two functions.
///
/// The list of all stages is explicit and ordered (stages/stages.cpp). Tests, benchmarks, the
/// ladder program and the library's choice all read it; supports() is the only place that decides
/// whether a stage can run a problem on a device.
#ifndef CUFLASH_STAGE_H_
#define CUFLASH_STAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "cuflash/error.h"
#include "cuflash/problem.h"

namespace cuflash {

/// What a device can do, as values: supports() needs no GPU.
struct Device {
  std::string name;              ///< e.g. "NVIDIA H200"
  int compute_capability = 0;    ///< 10·major + minor, e.g. 90
  std::size_t shared_bytes = 0;  ///< shared memory a block may opt in to, bytes
  int newest_code = 999;   ///< compute capability of the newest code in this library that runs
                           ///< on it; 0: none does
  const char* fault = "";  ///< why there is no device; empty where there is one
};

/// The architecture a stage is written for.
struct ArchRequirement {
  int compute_capability = 75;  ///< 10·major + minor
  bool exact = false;           ///< true for sm_90a and its like: an equality, not a minimum
  int for_bf16 = 0;             ///< 10·major + minor that bf16 needs, where that is more
};

/// A set of dtypes; bit i stands for the DType with value i.
struct DTypes {
  unsigned bits = 0;  ///< the set
  /// True if the set holds `dtype`.
  constexpr bool has(DType dtype) const { return (bits >> static_cast<int>(dtype) & 1u) != 0; }
};

/// A set of head dimensions, each a multiple of 16 and at most 256; bit i stands for 16·(i + 1).
struct HeadDims {
  unsigned bits = 0;  ///< the set
  /// True if the set holds `head_dim`.
  constexpr bool has(int head_dim) const {
    return head_dim > 0 && head_dim <= 256 && head_dim % 16 == 0 &&
           (bits >> (head_dim / 16 - 1) & 1u) != 0;
  }
};

/// The tile of a stage's main loop, in rows. A block owns some rows and streams the others past
/// them: in the forward pass it owns queries and streams keys; in a backward kernel for dK and dV
/// it owns keys and streams queries.
struct Tile {
  int owned = 0;     ///< rows that a block owns; 0: the stage has no tiles
  int streamed = 0;  ///< rows that it streams at a time
};

/// One stage of the ladder.
struct Stage {
  const char* name;          ///< the directory's name, the test filter and the benchmark's prefix
  const char* teaches;       ///< the one idea it adds, a few words
  const char* removes;       ///< the bottleneck of the stage before that it removes
  const char* limiter;       ///< what limits it now
  ArchRequirement arch;      ///< where it runs
  DTypes dtypes;             ///< from the same list that instantiates its templates
  HeadDims head_dims;        ///< from the same list that instantiates its templates
  std::size_t shared_bytes;  ///< largest shared memory of one block, bytes
  bool deterministic;        ///< two runs give the same bits, backward included
  /// The tile of one pass.
  Tile (*tile)(Pass, const Problem&);
  /// Scratch memory for one call, bytes; 0 if none.
  std::size_t (*workspace_bytes)(Pass, const Problem&);
  /// Queues the forward pass. The arguments are already checked and the workspace is there.
  FlashAttentionError (*forward)(const Problem&, const Forward&, cudaStream_t);
  /// Queues the backward pass; null: the stage has none.
  FlashAttentionError (*backward)(const Problem&, const Backward&, cudaStream_t);
};

/// All stages, in teaching order.
const std::vector<const Stage*>& stages();

/// The stage with this name ("01_naive"), this number ("01") or this word ("naive"), or null.
const Stage* find_stage(std::string_view name);

/// An answer: SUCCESS, or an error with one sentence that says why.
struct Support {
  FlashAttentionError error = FlashAttentionError::SUCCESS;  ///< SUCCESS means yes
  std::string reason;                                        ///< empty if yes
  /// True if yes.
  explicit operator bool() const { return error == FlashAttentionError::SUCCESS; }
};

/// Can `stage` run this pass of this problem on this device? Host code; the sentence it returns is
/// the one that reaches the test's skip, the ladder's row and the user's error.
Support supports(const Stage& stage, Pass pass, const Problem& problem, const Device& device);

/// Are these arguments fit for any stage? Checks in the order of FlashAttentionError, from
/// INVALID_DIMENSION to SIZE_OVERFLOW.
Support validate(const Problem& problem);
/// @overload
Support validate(const Problem& problem, const Forward& args);
/// @overload
Support validate(const Problem& problem, const Backward& args);

/// The fastest stage that supports the problem on the device, or null.
const Stage* choose_stage(Pass pass, const Problem& problem, const Device& device);

/// The current CUDA device; where there is none, compute_capability is 0 and `fault` says why.
Device current_device();

}  // namespace cuflash

#endif  // CUFLASH_STAGE_H_
