// Finds a stage by name, or chooses one for a call and a device, or explains why there is none.
#include <algorithm>
#include <limits>
#include <utility>

#include "api/listed.h"
#include "cuflash/stage.h"

namespace cuflash {
namespace {

// "01_naive" → "01" and "naive".
std::string_view number_of(std::string_view name) { return name.substr(0, name.find('_')); }
std::string_view word_of(std::string_view name) { return name.substr(name.find('_') + 1); }

// The pass's rank for the problem; a stage of rank 0 runs only by name.
int rank_of(const PassFacts& facts, const Problem& problem) {
  return facts.rank != nullptr ? facts.rank(problem).value : 0;
}

// A device that meets all requirements of a stage.
Device ideal_device(const ArchRequirement& arch) {
  return {"an ideal device", std::max(arch.compute_capability, arch.for_bf16),
          std::numeric_limits<std::size_t>::max()};
}

}  // namespace

const Stage* find_stage(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const Stage* stage : stages()) {
    if (name == stage->name) return stage;
  }
  // A number may be shared with a local stage, which comes later in the list. Words are unique:
  // each is the namespace of its stage.
  for (const Stage* stage : stages()) {
    if (name == number_of(stage->name) || name == word_of(stage->name)) return stage;
  }
  return nullptr;
}

const Stage* choose_stage(Pass pass, const Problem& problem, const Device& device, Features also) {
  const Stage* best = nullptr;
  int highest = 0;
  for (const Stage* stage : stages()) {
    const int rank = rank_of(stage->facts(pass), problem);
    if (rank <= highest || !fits(*stage, pass, problem, device, also)) continue;
    highest = rank;
    best = stage;
  }
  return best;
}

Support why_none(Pass pass, const Problem& problem, const Device& device, Features also) {
  // The first stage has the lowest requirements.
  Support first = supports(*stages().front(), pass, problem, device, also);
  if (first.error != FlashAttentionError::UNSUPPORTED_BY_STAGE) return first;

  const unsigned needed = features_of(problem).bits | also.bits;
  const Features lacking = {needed & ~stages().front()->facts(pass).features.bits};
  const std::string with_features =
      lacking.bits == 0 ? "" : " and " + listed(words_of(lacking), "and");
  const std::string dtype = dtype_name(problem.dtype);
  const std::string head_dim = "head_dim " + std::to_string(problem.head_dim);
  const std::string none = std::string("no stage's ") + pass_name(pass) + " pass supports " +
                           dtype + " with " + head_dim + with_features;
  bool any_has_the_features = false;
  DTypes with_head_dim;
  HeadDims with_dtype;
  for (const Stage* stage : stages()) {
    const PassFacts& facts = stage->facts(pass);
    if (rank_of(facts, problem) == 0) continue;
    if (fits(*stage, pass, problem, ideal_device(facts.arch), also)) {
      Support here = supports(*stage, pass, problem, device, also);
      return {here.error, none + " on this device: " + here.reason};
    }
    if ((needed & ~facts.features.bits) != 0) continue;
    any_has_the_features = true;
    if (facts.head_dims.has(problem.head_dim)) with_head_dim.bits |= facts.dtypes.bits;
    if (facts.dtypes.has(problem.dtype)) with_dtype.bits |= facts.head_dims.bits;
  }
  if (!any_has_the_features) {
    return {first.error, std::string("no stage's ") + pass_name(pass) + " pass supports " +
                             listed(words_of(lacking), "and")};
  }
  std::string sentence = none;
  if (with_dtype.bits != 0) {
    sentence += "; " + dtype + " is supported with head_dim " + listed(words_of(with_dtype), "or");
  }
  if (with_head_dim.bits != 0) {
    sentence += "; " + head_dim + " is supported with " + listed(words_of(with_head_dim), "or");
  }
  return {first.error, std::move(sentence)};
}

}  // namespace cuflash
