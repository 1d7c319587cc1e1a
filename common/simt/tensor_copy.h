// The copies of cp.async.bulk.tensor of the running block: those in flight, and the last one to
// each place in shared memory.
#ifndef CUFLASH_SIMT_TENSOR_COPY_H_
#define CUFLASH_SIMT_TENSOR_COPY_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <set>
#include <vector>

#include "device/tensor_map_arguments.h"
#include "simt/mbarrier.h"

namespace cuflash::simt {

// The hardware swizzles addresses: bits of the row change places of chunks within it. The patterns
// are those of Swizzle (device/swizzle.h) in a tile that begins where the pattern does.
inline std::uintptr_t swizzled(std::uintptr_t address, TensorSwizzle swizzle) {
  const std::uintptr_t mask = swizzle == TensorSwizzle::k128Bytes  ? 7
                              : swizzle == TensorSwizzle::k64Bytes ? 3
                                                                   : 0;
  return address ^ (address / 128 & mask) * TensorMapArguments::kChunkBytes;
}

struct TensorCopy {
  static constexpr std::size_t kChunk = TensorMapArguments::kChunkBytes;
  // 16 bytes in shared memory, of which [begin, end) come from global memory. The others are zeros.
  struct Chunk {
    std::uintptr_t to, from;
    std::size_t begin, end;
  };
  // The last read of a thread of what the copy brought.
  struct Reader {
    Stamp when = 0;
    std::uintptr_t address = 0;
  };
  std::uintptr_t to = 0;  // in shared memory
  std::size_t bytes = 0;
  std::vector<Chunk> chunks;  // until the copy takes effect
  const Mbarrier* barrier = nullptr;
  int phase = 0;  // of the barrier: its end is the copy's
  std::uint16_t read_site = 0;
  Stamp begun = 0;  // when, by which thread, at which site that writes
  bool in_flight = true;
  // By thread. The next copy to the place must be ordered after all of them; a cell would remember
  // only two.
  std::vector<Reader> readers;
  std::size_t places = 0;  // chunks in shared memory that no later copy has taken

  bool lies_within(std::uintptr_t begin, std::size_t size) const {
    return begin <= to && to + bytes <= begin + size;
  }
};

class TensorCopies {
 public:
  void begin_block() {
    if (!list.empty()) *this = {};
  }
  // The last copy to the chunk at this address; null if there is none.
  TensorCopy* at(std::uintptr_t address) const {
    const std::size_t place = address / TensorCopy::kChunk - first_;
    return place < at_.size() ? at_[place] : nullptr;
  }
  void set(const Region& shared, std::uintptr_t address, TensorCopy* copy) {
    first_ = shared.begin / TensorCopy::kChunk;
    at_.resize(shared.bytes / TensorCopy::kChunk + 2);
    at_[address / TensorCopy::kChunk - first_] = copy;
  }

  std::list<TensorCopy> list;
  std::set<int> reported_sites;  // sites that began a copy which was met in flight

 private:
  std::size_t first_ = 0;
  std::vector<TensorCopy*> at_;  // by chunk of shared memory
};

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_TENSOR_COPY_H_
