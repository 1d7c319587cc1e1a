// The warp view: the accesses of 32 lanes, joined into warp instructions and counted.
#ifndef CUFLASH_SIMT_TRACE_H_
#define CUFLASH_SIMT_TRACE_H_

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "simt/machine.h"
#include "simt/source.h"

namespace cuflash::simt {

enum class AccessKind : std::uint8_t { kRead, kWrite, kAtomic };

// One place in the source that accesses memory. Copies of it that the compiler made (an unrolled
// loop) are one site.
struct Site {
  SourcePlace place;
  AccessKind kind;
  std::uint8_t size;  // bytes
};

// Numbers the sites. Site 0 stands for all that do not fit into 16 bits.
class Sites {
 public:
  std::uint16_t id(std::uintptr_t return_address, AccessKind kind, std::size_t size) {
    const std::uint16_t known = known_id(return_address, size);
    return known != 0 ? known : look_up(return_address, kind, size);
  }
  // 0 if it takes a search to tell.
  std::uint16_t known_id(std::uintptr_t return_address, std::size_t size) const {
    const Cached& cached = cache_[(return_address ^ size << 7) % kCacheSize];
    return cached.address == return_address && cached.size == size ? cached.id : 0;
  }
  const Site& operator[](int id) const { return sites_[id]; }
  std::size_t count() const { return sites_.size(); }
  // The place of each site in the order of the source.
  const std::vector<std::uint32_t>& ranks() const;

 private:
  static constexpr std::size_t kCacheSize = 16384;
  struct Cached {
    std::uintptr_t address = 0;
    std::uint16_t size = 0;
    std::uint16_t id = 0;
  };
  std::uint16_t look_up(std::uintptr_t return_address, AccessKind kind, std::size_t size);
  Cached cache_[kCacheSize];
  std::vector<Site> sites_ = std::vector<Site>(1, Site{{}, AccessKind::kRead, 0});
  std::unordered_map<std::uintptr_t, SourcePlace> places_;  // by return address
  std::unordered_map<std::string, std::uint16_t> ids_;      // by chain, kind and size
  mutable std::vector<std::uint32_t> ranks_;                // made anew when there are more sites
};

// One access of one lane: site:16 | shared:1 | address:47.
using Record = std::uint64_t;
constexpr int kRecordSiteShift = 48;
constexpr Record kRecordShared = Record{1} << 47;
constexpr Record make_record(std::uint16_t site, bool shared, std::uintptr_t address) {
  return Record{site} << kRecordSiteShift | (shared ? kRecordShared : 0) | address;
}
// Site and memory together: of one line, some lanes may read shared and others global memory.
constexpr std::size_t source_of(Record r) { return r >> (kRecordSiteShift - 1); }
constexpr int site_of(std::size_t source) { return static_cast<int>(source / 2); }
constexpr bool is_shared(std::size_t source) { return source % 2 != 0; }

// What one lane has recorded. There is room for a few hundred accesses, so that the traces of a
// block stay in the cache; a lane that has filled its room waits for the others of its warp.
class LaneTrace {
 public:
  bool full() const { return next_ == end_; }
  void push(Record record) { *next_++ = record; }
  const Record* begin() const { return records_.data(); }
  std::size_t size() const { return next_ - records_.data(); }
  void clear() { next_ = records_.data(); }
  // Forgets the first `count` records.
  void drop_front(std::size_t count);
  // Doubles the room.
  void grow();

 private:
  std::vector<Record> records_;
  Record* next_ = nullptr;
  Record* end_ = nullptr;
};

// What the requests of one site to one memory amount to.
struct SiteCounts {
  std::uint64_t requests = 0, bytes = 0;
  std::uint64_t sectors = 0;                    // global memory
  std::uint64_t wavefronts = 0, conflicts = 0;  // shared memory
};

class Trace {
 public:
  explicit Trace(const Sites& sites) : sites_(sites) {}

  // Joins and counts what up to 32 lanes have recorded since their last warp-wide event, and
  // empties their traces. lanes[i] is null for a lane that does not exist. Lanes that part in a
  // branch or a loop meet again at the next access that all of them make.
  void flush(LaneTrace* const lanes[32]);
  // The same as far as it is certain before the event: the lanes of `open` will record more. Takes
  // what it counts out of the traces.
  void flush_in_step(LaneTrace* const lanes[32], std::uint32_t open);

  // The accounts since reset(): in sum, and by line.
  Counts totals() const;
  std::vector<LineCounts> by_line() const;
  void reset() { accounts_.clear(); }

 private:
  static constexpr std::size_t kNoSource = ~std::size_t{0};
  void join_divergent(LaneTrace* const lanes[32]);
  std::size_t next_source(const Record* const next[32], const Record* const end[32]) const;
  void account(std::size_t source, std::uint32_t mask, const std::uintptr_t* address);
  const Sites& sites_;
  std::vector<SiteCounts> accounts_;                 // by source
  std::vector<std::array<std::uint32_t, 32>> left_;  // by source: accesses that a lane has left
};

// 32-byte sectors that a warp instruction touches.
int sectors_touched(std::size_t size, std::uint32_t mask, const std::uintptr_t* address);

// Passes over the 32 banks of 4 bytes that a warp instruction takes, and the fewest that any
// addresses would take. Accesses of 8 and 16 bytes go by half and quarter warps.
struct Wavefronts {
  int taken;
  int ideal;
};
Wavefronts bank_wavefronts(std::size_t size, std::uint32_t mask, const std::uintptr_t* address);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_TRACE_H_
