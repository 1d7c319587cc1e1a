/// @file stage.h
/// A stage of the ladder as data: its name, its lesson, and the capabilities of each pass.
///
/// The list of all stages is explicit and ordered (stages/stages.cpp). Tests, benchmarks, the
/// ladder program and the library's choice of a stage all read it; supports() is the only place
/// that decides whether a stage can run a problem on a device.
#ifndef CUFLASH_STAGE_H_
#define CUFLASH_STAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "cuflash/error.h"
#include "cuflash/problem.h"

namespace cuflash {

/// The capabilities of a device, as plain values, so that supports() needs no GPU.
struct Device {
  std::string name;              ///< e.g. "NVIDIA H200"
  int compute_capability = 0;    ///< 10·major + minor, e.g. 90
  std::size_t shared_bytes = 0;  ///< shared memory a block may opt in to, bytes
  int sms = 0;                   ///< number of streaming multiprocessors (SMs)
  int newest_code = 999;   ///< compute capability of the newest code in this library that runs
                           ///< on the device; 0 if none does
  bool exact_code = true;  ///< true if the library has code for exactly this architecture, such
                           ///< as sm_90a for 9.0
  const char* fault = "";  ///< why there is no device; empty if there is one
};

/// The architecture a stage is written for.
struct ArchRequirement {
  int compute_capability = 75;  ///< 10·major + minor
  bool exact = false;           ///< true if a newer architecture cannot run it, as with sm_90a
  int for_bf16 = 0;             ///< 10·major + minor that bf16 needs, if that is higher
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

/// What a call may require of a pass beyond equal heads, equal lengths, no mask, usual strides and
/// its own K and V for each sequence.
enum class Feature : unsigned {
  kCausal = 1,          ///< a causal mask
  kWindow = 2,          ///< window_left or window_right
  kGroupedHeads = 4,    ///< heads_q is greater than heads_kv
  kCrossLengths = 8,    ///< seq_q and seq_kv differ
  kDeterministic = 16,  ///< bitwise identical results in every run
  kAnyStride = 32,      ///< a stride of 2^40 bytes or more, in a dimension longer than 1
  kNullGradients = 64,  ///< a null dq, dk or dv
  kLengths = 128,       ///< seqused_k or k_begin
  kKvBatch = 256,       ///< kv_batch
  kSplits = 512,        ///< split_keys or num_splits
  kPages = 1024         ///< page_size
};

/// A set of features.
struct Features {
  unsigned bits = 0;  ///< the set
  /// True if the set holds `feature`.
  constexpr bool has(Feature feature) const { return (bits & static_cast<unsigned>(feature)) != 0; }
  /// The set without `feature`.
  constexpr Features without(Feature feature) const {
    return {bits & ~static_cast<unsigned>(feature)};
  }
};

/// All features.
inline constexpr Features kEveryFeature{2047};
/// All features but those of a cache of keys and values.
inline constexpr Features kDenseFeatures{127};

/// The features that a problem needs.
Features features_of(const Problem& problem);
/// The features that a call needs: its problem's, and those that its arguments require.
Features features_of(const Problem& problem, const Forward& args);
/// @overload
Features features_of(const Problem& problem, const Backward& args);

/// A pass's place in the library's choice among the stages that support a problem: the highest rank
/// wins, and among equals the earlier stage. A stage of rank 0 runs only when it is named.
struct Rank {
  int value = 0;            ///< by convention ten times the number of the stage it is as fast as
  const char* reason = "";  ///< why, in a few words
};

/// The instructions that compute a pass's matrix products: f32 multiply-adds, those of a warp on
/// the tensor cores (mma.sync, also behind nvcuda::wmma), or those of a warpgroup (wgmma).
enum class ProductsBy { kMultiplyAdds, kMma, kWgmma };

/// The facts of one pass of a stage. The function that queues it is in PassOf.
struct PassFacts {
  ArchRequirement arch;  ///< the devices it runs on
  DTypes dtypes;         ///< from the same list that instantiates its templates
  HeadDims head_dims;    ///< from the same list that instantiates its templates
  Features features;     ///< the supported features
  ProductsBy products_by = ProductsBy::kMultiplyAdds;  ///< the instructions of its products
  bool keeps_scores = false;  ///< true if its workspace holds S or P of every head,
                              ///< O(seq_q · seq_kv)
  bool any_order = false;     ///< true if a nondeterministic call adds in an unspecified order
  bool resident = false;      ///< true if its grid is persistent: at most one block per SM
  /// The stage whose pass this one changes: a diff of the two shows the idea. Empty if there is
  /// none.
  const char* follows = "";
  /// True if this pass repeats the kernels of the one that it follows, apart from names, so that
  /// the directory can be read alone. scripts/maintainer/repeated_kernels.py checks it.
  bool repeats = false;
  /// Matrix products of seq_q × seq_kv × head_dim that the pass computes per query head; one that
  /// it computes twice counts twice. A forward pass needs 2, a backward pass 5.
  int (*products)(const Problem&) = nullptr;
  /// Shared memory of the pass's largest block, bytes; 0 for a problem that it does not support.
  std::size_t (*shared_bytes)(const Problem&) = nullptr;
  /// Scratch memory for one call, deterministic or not, bytes; 0 if none.
  std::size_t (*workspace_bytes)(const Problem&) = nullptr;
  /// Its rank in the library's choice.
  Rank (*rank)(const Problem&) = nullptr;
};

/// One pass of a stage: its facts and the function that queues it. Args is Forward or Backward.
template <class Args>
struct PassOf : PassFacts {
  /// Queues the pass on the current device, which the Device describes; null if the stage lacks the
  /// pass. The caller has checked the arguments and provided the workspace.
  FlashAttentionError (*run)(const Problem&, const Args&, const Device&, cudaStream_t) = nullptr;
};

/// One stage of the ladder: data, filled by named fields.
struct Stage {
  const char* name = "";      ///< the directory's name, the test filter and the benchmark's prefix
  const char* teaches = "";   ///< the one idea it adds, a few words
  const char* removes = "";   ///< the previous stage's bottleneck that it removes
  const char* limiter = "";   ///< what limits it now
  PassOf<Forward> forward;    ///< O and LSE
  PassOf<Backward> backward;  ///< dQ, dK and dV

  /// The facts of a pass.
  constexpr const PassFacts& facts(Pass pass) const {
    if (pass == CUFLASH_FORWARD) return forward;
    return backward;
  }
  /// True if the stage has this pass.
  constexpr bool has(Pass pass) const {
    return pass == CUFLASH_FORWARD ? forward.run != nullptr : backward.run != nullptr;
  }
};

/// All stages, in teaching order.
const std::vector<const Stage*>& stages();

/// The stage with this full name ("01_naive"), number ("01") or short name ("naive"), or null.
const Stage* find_stage(std::string_view name);

/// SUCCESS, or an error with one sentence that says why.
struct Support {
  FlashAttentionError error = FlashAttentionError::SUCCESS;  ///< SUCCESS if supported
  std::string reason;                                        ///< empty if supported
  /// True if supported.
  explicit operator bool() const { return error == FlashAttentionError::SUCCESS; }
};

/// Whether `stage` can run this pass of this problem on this device. Host code; tests that skip,
/// the ladder's rows and the user's error all show its sentence. `also` holds the features that a
/// call needs beyond those of its problem.
Support supports(const Stage& stage, Pass pass, const Problem& problem, const Device& device,
                 Features also = {});

/// True if supports() returns SUCCESS. It builds no sentence, so it allocates no memory.
bool fits(const Stage& stage, Pass pass, const Problem& problem, const Device& device,
          Features also = {});

/// Makes the checks that depend on neither stage nor device, in the order that cuflash_error
/// states, from CUFLASH_INVALID_DIMENSION to CUFLASH_SIZE_OVERFLOW.
Support validate(const Problem& problem);
/// @overload
Support validate(const Problem& problem, const Forward& args);
/// @overload
Support validate(const Problem& problem, const Backward& args);

/// The highest-ranked stage among those that support the problem on the device, or null.
const Stage* choose_stage(Pass pass, const Problem& problem, const Device& device,
                          Features also = {});

/// Why choose_stage() returns null, and what would be supported instead; SUCCESS if the first stage
/// supports the call.
Support why_none(Pass pass, const Problem& problem, const Device& device, Features also = {});

/// The current CUDA device; if there is none, compute_capability is 0 and `fault` says why. The
/// result stays valid until the process ends.
const Device& current_device();

}  // namespace cuflash

#endif  // CUFLASH_STAGE_H_
