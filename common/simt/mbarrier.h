// The mbarriers of the running block.
#ifndef CUFLASH_SIMT_MBARRIER_H_
#define CUFLASH_SIMT_MBARRIER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "simt/finding.h"
#include "simt/knowledge.h"

namespace cuflash::simt {

struct NamedAccess;
struct Thread;

struct Mbarrier {
  std::uintptr_t address = 0;
  std::size_t index = 0;  // in the order of initialisation
  unsigned arrivals = 0;  // of a phase
  Stamp initialised = 0, init_fenced = 0;

  int phase = 0;  // the current one, counted from 0
  unsigned arrivals_left = 0;
  std::int64_t bytes_expected = 0, bytes_copied = 0;
  std::vector<Stamp> arrived;  // the arrivals of the phase
  Stamp last_copy = 0;
  Stamp last_arrival = 0;  // of any phase

  Knowledge joining;   // of all threads that have arrived
  Knowledge released;  // of the threads that had arrived when the last phase ended

  // By warp and parity: the last phase that one of its lanes has waited for in time, and the
  // knowledge it got. A lane that waits too late is reported, and continues as if it had been in
  // time.
  struct Seen {
    int phase = -2;
    Knowledge released;
  };
  std::vector<std::array<Seen, 2>> seen;
};

class Mbarriers {
 public:
  void begin_block() {
    if (!list_.empty()) *this = {};
  }
  void init(const Thread& self, std::uintptr_t address, unsigned arrivals,
            std::uintptr_t return_address);
  void fence_inits(const Thread& self);
  void arrive(Thread& self, std::uintptr_t address, unsigned expected_bytes,
              std::uintptr_t return_address);
  void wait(Thread& self, std::uintptr_t address, unsigned parity, std::uintptr_t return_address);
  // A copy that begins now, with this stamp, adds these bytes to the current phase.
  void add_bytes(Thread& self, Mbarrier& barrier, std::size_t bytes, Stamp copy);
  // The barrier at the address. The launch ends if there is none.
  Mbarrier& at(const Thread& self, std::uintptr_t address, std::uint16_t site);
  void report(Report report, const Mbarrier& barrier, const std::vector<NamedAccess>& accesses,
              const std::string& what) const;
  std::string name_of(const Mbarrier& barrier) const;
  std::string name_at(std::uintptr_t address) const { return name_of(*at_.at(address)); }

 private:
  void end_phase_if_over(Thread& self, Mbarrier& barrier);

  std::deque<Mbarrier> list_;
  std::unordered_map<std::uintptr_t, Mbarrier*> at_;  // by address: the last one initialised there
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_MBARRIER_H_
