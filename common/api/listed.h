// Lists of words for error messages.
#ifndef CUFLASH_API_LISTED_H_
#define CUFLASH_API_LISTED_H_

#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "cuflash/workload.h"

namespace cuflash {

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

}  // namespace cuflash

#endif  // CUFLASH_API_LISTED_H_
