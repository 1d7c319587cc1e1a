// The copies of cp.async.bulk.tensor of the running block: those in flight, and the last one to
// each place in shared memory.
#ifndef CUFLASH_SIMT_TENSOR_COPY_H_
#define CUFLASH_SIMT_TENSOR_COPY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <set>
#include <vector>

#include "simt/mbarrier.h"
#include "simt/tensor_box.h"

namespace cuflash::simt {

struct TensorCopy {
  static constexpr std::size_t kChunk = BoxChunk::kBytes;
  // The last read of the copied data by a thread.
  struct Reader {
    Stamp when = 0;
    std::uintptr_t address = 0;
  };
  std::uintptr_t to = 0;  // in shared memory
  std::size_t bytes = 0;
  std::vector<BoxChunk> chunks;  // until the copy takes effect
  const Mbarrier* barrier = nullptr;
  int phase = 0;  // of the barrier, with which the copy ends
  std::uint16_t read_site = 0;
  Stamp begun = 0;  // moment, thread, and the site that writes
  bool in_flight = true;
  // By thread. The next copy to the place must be ordered after all of them; a cell would hold only
  // two.
  std::vector<Reader> readers;
  std::size_t places = 0;  // chunks in shared memory that no later copy has taken

  bool lies_within(std::uintptr_t begin, std::size_t size) const {
    return begin <= to && to + bytes <= begin + size;
  }
};

// A copy's read of global memory, which lasts until the phase ends.
struct CopyRead {
  Stamp begun;          // moment, thread, and the site that reads
  std::size_t barrier;  // its number
  int phase;
};

class TensorCopies {
 public:
  void begin_block() {
    if (!list_.empty()) *this = {};
  }
  void issue(Thread& self, std::uintptr_t to, const TensorMapArguments& map, const int (&first)[4],
             std::uintptr_t barrier, std::uintptr_t return_address);
  // The thread has waited for this phase of the barrier.
  void on_wait(const Thread& self, const Mbarrier& barrier, int phase);
  // Records an access to the copied data. False if the copy has not ended for the thread; the
  // access is then reported.
  bool on_access(const Thread& self, TensorCopy& copy, std::uintptr_t address, std::uint16_t site);
  // All threads of the block have exited.
  void end_block();

  // The last copy to the chunk at this address; null if there is none.
  TensorCopy* last_to(std::uintptr_t address) const {
    const std::size_t place = address / TensorCopy::kChunk - first_;
    return place < at_.size() ? at_[place] : nullptr;
  }
  // True if the copy's end is ordered before the thread's next access.
  bool has_ended(const Thread& self, const TensorCopy& copy) const;
  // True if the access `earlier`, which may be a copy's read of global memory, is ordered before
  // the thread's next access. Writes to the source of a copy in flight are found at the copy's end.
  bool is_over(Stamp earlier, const Thread& self, bool shared) const;
  void report_not_full(const Thread& self, const TensorCopy& copy, std::uintptr_t address,
                       std::uint16_t site);
  // True if copies of this block read at this site.
  bool read_at(int site) const {
    return std::any_of(reads_.begin(), reads_.end(),
                       [site](const CopyRead& read) { return stamp_site(read.begun) == site; });
  }

 private:
  void read_box(Thread& self, const TensorCopy& copy);
  void check_destination(const Thread& self, const TensorCopy& copy);
  void take_destination(TensorCopy& copy);
  void end(const Thread& self, TensorCopy& copy);
  // The read with this stamp; null if it is not that of a copy of this block.
  const CopyRead* read(Stamp begun) const {
    const auto found =
        std::lower_bound(reads_.begin(), reads_.end(), begun,
                         [](const CopyRead& read, Stamp wanted) { return read.begun < wanted; });
    return found != reads_.end() && found->begun == begun ? &*found : nullptr;
  }

  std::list<TensorCopy> list_;
  std::vector<CopyRead> reads_;   // of all copies, the oldest first
  std::set<int> reported_sites_;  // the sites of copies that were reported in flight
  std::size_t first_ = 0;
  std::vector<TensorCopy*> at_;  // by chunk of shared memory
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_TENSOR_COPY_H_
