// The copies of cp.async that have begun and have not taken effect.
#ifndef CUFLASH_SIMT_CP_ASYNC_H_
#define CUFLASH_SIMT_CP_ASYNC_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "simt/memory.h"
#include "simt/thread.h"

namespace cuflash::simt {

// A copy of 16 bytes in flight.
struct AsyncCopy {
  std::uintptr_t to;                   // in shared memory
  std::optional<std::uintptr_t> from;  // in global memory; without it, the copy writes zeros
  std::size_t group;                   // of its thread, counted from 0
  std::uint16_t read_site;
  Stamp begun;  // moment, thread, and the site that writes
};

class AsyncCopies {
 public:
  void begin_launch() { *this = {}; }
  void begin_block(int num_threads);
  // A copy without `from` writes zeros.
  void issue(const Thread& self, std::uintptr_t to, std::optional<std::uintptr_t> from,
             std::uintptr_t return_address);
  void commit(const Thread& self) { ++of_threads_[self.index].groups; }
  void wait(const Thread& self, std::size_t pending);
  // False if the access touches the destination of a copy in flight, which is then reported.
  bool on_access(const Thread& self, const Region& region, std::uintptr_t address,
                 std::uint16_t site);
  // The thread has exited.
  void end_thread(const Thread& self);
  // True if the site has begun copies in this launch.
  bool begin_at(int site) const { return write_sites_.count(site) != 0; }

 private:
  // The copies of one thread, oldest first.
  struct OfThread {
    std::list<AsyncCopy> copies;
    std::size_t groups = 0;  // number of committed groups
  };
  void end(const Thread& self, const AsyncCopy& copy);

  std::vector<OfThread> of_threads_;
  std::unordered_map<std::uintptr_t, const AsyncCopy*> to_;  // by destination: of this block
  // The sites of this launch that begin copies, and the sites of copies that were reported in
  // flight.
  std::set<int> write_sites_, reported_sites_;
};

// Reports a write to the source since the copy began, because a copy reads its source until the
// wait. If `noted`, the copy becomes a reader in the cells.
void check_copy_source(const Thread& self, std::uintptr_t from, std::size_t size, Stamp begun,
                       std::uint16_t read_site, bool noted);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_CP_ASYNC_H_
