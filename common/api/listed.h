// Lists of words for error messages.
#ifndef CUFLASH_API_LISTED_H_
#define CUFLASH_API_LISTED_H_

#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "cuflash/workload.h"

namespace cuflash {

struct FeatureName {
  Feature feature;
  const char* name;
};
inline constexpr FeatureName kFeatureNames[] = {
    {Feature::kCausal, "a causal mask"},
    {Feature::kWindow, "a window"},
    {Feature::kGroupedHeads, "fewer KV heads than query heads"},
    {Feature::kCrossLengths, "a seq_q that differs from seq_kv"},
    {Feature::kDeterministic, "a deterministic call"},
    {Feature::kAnyStride, "a stride of 2^40 bytes or more"},
    {Feature::kNullGradients, "a null dq, dk or dv"},
    {Feature::kLengths, "seqused_k or k_begin"},
    {Feature::kKvBatch, "kv_batch"},
    {Feature::kSplits, "split_keys or num_splits"},
    {Feature::kPages, "pages"},
};

// {"32", "64", "128"} and "or" → "32, 64 or 128".
inline std::string listed(const std::vector<std::string>& words, const std::string& last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : " " + last + " ";
    text += words[i];
  }
  return words.empty() ? "none" : text;
}

inline std::vector<std::string> words_of(DTypes dtypes) {
  std::vector<std::string> words;
  for (const DType dtype : kDTypes) {
    if (dtypes.has(dtype)) words.push_back(dtype_name(dtype));
  }
  return words;
}

inline std::vector<std::string> words_of(HeadDims head_dims) {
  std::vector<std::string> words;
  for (const int head_dim : kHeadDims) {
    if (head_dims.has(head_dim)) words.push_back(std::to_string(head_dim));
  }
  return words;
}

inline std::vector<std::string> words_of(Features features) {
  std::vector<std::string> words;
  for (const FeatureName& feature : kFeatureNames) {
    if (features.has(feature.feature)) words.push_back(feature.name);
  }
  return words;
}

}  // namespace cuflash

#endif  // CUFLASH_API_LISTED_H_
