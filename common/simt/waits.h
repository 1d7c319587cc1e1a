// The source lines at which threads wait for others, and the lines whose waits are skipped.
#ifndef CUFLASH_SIMT_WAITS_H_
#define CUFLASH_SIMT_WAITS_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "simt/machine.h"

namespace cuflash::simt {

class Waits {
 public:
  // Notes a wait at this return address. True if its line is skipped.
  bool pass(std::uintptr_t return_address, bool of_warp) {
    const auto [known, added] = at_.try_emplace(return_address);
    if (added) known->second = wait_at(return_address, of_warp);
    return known->second.skipped;
  }

  void reset() { at_.clear(); }
  void skip(const std::string& location);
  std::vector<WaitPlace> places() const;

 private:
  struct Wait {
    WaitPlace place;
    bool skipped = false;
  };
  Wait wait_at(std::uintptr_t return_address, bool of_warp) const;

  std::unordered_map<std::uintptr_t, Wait> at_;  // by return address
  std::string skipped_;
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_WAITS_H_
