// The findings of the simulator, collected until they are taken.
#ifndef CUFLASH_SIMT_FINDINGS_H_
#define CUFLASH_SIMT_FINDINGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "simt/finding.h"

namespace cuflash::simt {

// Findings, with similar ones folded into one.
class Findings {
 public:
  using Key = std::vector<std::uint64_t>;
  // Counts one more of `key`. True if it is the first, or has a greater `weight` than the one that
  // was described: then describe() must follow.
  bool count(Report report, const Key& key, int weight = 0);
  // `lacks_names`: the finding cannot name shared arrays, because there is no debug information.
  void describe(Finding finding, bool lacks_names);
  std::vector<Finding> take();

 private:
  struct Known {
    std::size_t place;  // in the list
    int weight;
  };
  std::map<std::pair<Report, Key>, Known> known_;
  std::vector<Finding> list_;
  std::size_t last_counted_ = 0;
  // The first finding that lacks names says why, once in the life of the process.
  std::optional<std::size_t> lacks_names_;
  bool said_why_ = false;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_FINDINGS_H_
