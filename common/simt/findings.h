// The findings of the simulator, collected until they are taken.
#ifndef CUFLASH_SIMT_FINDINGS_H_
#define CUFLASH_SIMT_FINDINGS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "simt/machine.h"

namespace cuflash::simt {

// Findings, those that are alike folded into one.
class Findings {
 public:
  using Key = std::vector<std::uint64_t>;
  // Counts one more of `key`. True if it is the first or tells more (by `weight`) than the one that
  // was described: then describe() must follow.
  bool count(FindingKind kind, const Key& key, int weight = 0);
  void describe(Finding finding);
  std::vector<Finding> take();

 private:
  struct Known {
    std::size_t place;  // in the list
    int weight;
  };
  std::map<std::pair<FindingKind, Key>, Known> known_;
  std::vector<Finding> list_;
  std::size_t last_counted_ = 0;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_FINDINGS_H_
