// The warp view: the accesses of 32 lanes, joined into warp instructions and counted.
#ifndef CUFLASH_SIMT_REQUEST_COUNTER_H_
#define CUFLASH_SIMT_REQUEST_COUNTER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "simt/access_sites.h"
#include "simt/block_recorder.h"
#include "simt/machine.h"

namespace cuflash::simt {

// One access of one lane: site:16 | shared:1 | address:47.
using Record = std::uint64_t;
constexpr int kRecordSiteShift = 48;
constexpr Record kRecordShared = Record{1} << 47;
constexpr Record make_record(std::uint16_t site, bool shared, std::uintptr_t address) {
  return Record{site} << kRecordSiteShift | (shared ? kRecordShared : 0) | address;
}
// Each site has an account for each of the two memories, because at one site some lanes may access
// shared memory and others global memory.
constexpr std::size_t account_of(Record r) { return r >> (kRecordSiteShift - 1); }
constexpr int site_of(std::size_t account) { return static_cast<int>(account / 2); }
constexpr bool is_shared(std::size_t account) { return account % 2 != 0; }

// The recorded accesses of one lane. There is room for a few hundred, so that the traces of a block
// stay in the cache; a lane with a full trace waits for the others of its warp.
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

// The totals of one site's requests to one memory.
struct SiteCounts {
  std::uint64_t requests = 0, bytes = 0;
  std::uint64_t sectors = 0;                    // global memory
  std::uint64_t wavefronts = 0, conflicts = 0;  // shared memory
};

// Joins the accesses of lanes into requests, and counts the requests.
class RequestCounter {
 public:
  RequestCounter(const Sites& sites, BlockRecorder& recorder)
      : sites_(sites), recorder_(recorder) {}

  // Joins and counts the records of up to 32 lanes since their last warp-wide event, and empties
  // their traces. lanes[i] is null for a lane that does not exist. Lanes that diverge in a branch
  // or a loop reconverge at the next access that all of them make.
  void flush(LaneTrace* const lanes[32]);
  // Joins, counts and removes only those records that later ones cannot change: the lanes of `open`
  // will record more before the event.
  void flush_in_step(LaneTrace* const lanes[32], std::uint32_t open);

  // Counts one request of the copy unit, which is of global memory only.
  void count_copy(std::uint16_t site, std::uint64_t bytes, std::uint64_t sectors);

  // The counts since reset(): in total, and by line.
  Counts totals() const;
  std::vector<LineCounts> by_line() const;
  void reset() { accounts_.clear(); }

 private:
  static constexpr std::size_t kNoAccount = ~std::size_t{0};
  void join_divergent(LaneTrace* const lanes[32]);
  std::size_t next_account(const Record* const next[32], const Record* const end[32]) const;
  void count(std::size_t account, std::uint32_t mask, const std::uintptr_t* address);
  const Sites& sites_;
  BlockRecorder& recorder_;
  std::vector<SiteCounts> accounts_;
  std::vector<std::array<std::uint32_t, 32>> left_;  // by account: accesses that a lane has left
};

// 32-byte sectors that a warp instruction touches.
int sectors_touched(std::size_t size, std::uint32_t mask, const std::uintptr_t* address);

// The wavefronts of a warp instruction, in 32 banks of 4 bytes, and the minimum for other
// addresses. Accesses of 8 and 16 bytes proceed by half and quarter warps; loads by
// twice as many lanes, if every lane n shares its address with n ^ 1, or every one with n ^ 2.
struct Wavefronts {
  int taken;
  int ideal;
};
Wavefronts bank_wavefronts(std::size_t size, AccessKind kind, std::uint32_t mask,
                           const std::uintptr_t* address);

}  // namespace cuflash::simt

#endif  // CUFLASH_SIMT_REQUEST_COUNTER_H_
