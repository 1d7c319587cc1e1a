#include "simt/request_counter.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace cuflash::simt {

void LaneTrace::drop_front(std::size_t count) {
  next_ = std::copy(records_.data() + count, next_, records_.data());
}

void LaneTrace::grow() {
  // Not a power of two, because lanes in step would then compete for the same cache sets.
  constexpr std::size_t kFirstRoom = 520;
  const std::size_t used = size();
  records_.resize(records_.empty() ? kFirstRoom : 2 * records_.size());
  next_ = records_.data() + used;
  end_ = records_.data() + records_.size();
}

void RequestCounter::flush_in_step(LaneTrace* const lanes[32], std::uint32_t open) {
  constexpr Record kSameSite = ~(kRecordShared - 1);
  const Record* records[32];
  std::size_t size[32] = {};
  std::size_t end = ~std::size_t{0};
  for (int lane = 0; lane < 32; ++lane) {
    if (lanes[lane] == nullptr) continue;
    records[lane] = lanes[lane]->begin();
    size[lane] = lanes[lane]->size();
    if ((open >> lane & 1) != 0) end = std::min(end, size[lane]);
  }
  // Lanes are in step while their i-th records have the same site. A lane without further records
  // drops out.
  std::size_t i = 0;
  bool in_step = true;
  while (in_step && i < end) {
    int active[32];
    int num_active = 0;
    std::uint32_t mask = 0;
    std::size_t next_to_drop = end;
    for (int lane = 0; lane < 32; ++lane) {
      if (size[lane] <= i) continue;
      active[num_active++] = lane;
      mask |= 1u << lane;
      next_to_drop = std::min(next_to_drop, size[lane]);
    }
    if (num_active == 0) break;
    for (; i < next_to_drop; ++i) {
      std::uintptr_t address[32];
      const Record first = records[active[0]][i];
      Record different = 0;
      for (int a = 0; a < num_active; ++a) {
        const Record record = records[active[a]][i];
        different |= record ^ first;
        address[active[a]] = record & (kRecordShared - 1);
      }
      in_step = (different & kSameSite) == 0;
      if (!in_step) break;
      count(account_of(first), mask, address);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    if (lanes[lane] != nullptr) lanes[lane]->drop_front(std::min(i, size[lane]));
  }
}

void RequestCounter::flush(LaneTrace* const lanes[32]) {
  const auto anything = [&] {
    return std::any_of(lanes, lanes + 32,
                       [](const LaneTrace* lane) { return lane != nullptr && lane->size() != 0; });
  };
  if (!anything()) return;
  flush_in_step(lanes, 0);
  if (!anything()) return;
  join_divergent(lanes);
  for (int lane = 0; lane < 32; ++lane) {
    if (lanes[lane] != nullptr) lanes[lane]->clear();
  }
}

// Joins lanes that have diverged. A lane waits if another lane at a different access still has to
// make the lane's next access at least as often; otherwise it goes on.
void RequestCounter::join_divergent(LaneTrace* const lanes[32]) {
  const Record* next[32] = {};
  const Record* end[32] = {};
  left_.resize(2 * sites_.count());
  for (int lane = 0; lane < 32; ++lane) {
    if (lanes[lane] == nullptr) continue;
    next[lane] = lanes[lane]->begin();
    end[lane] = next[lane] + lanes[lane]->size();
    for (const Record* r = next[lane]; r != end[lane]; ++r) ++left_[account_of(*r)][lane];
  }
  for (;;) {
    const std::size_t account = next_account(next, end);
    if (account == kNoAccount) return;
    std::uint32_t mask = 0;
    std::uintptr_t address[32];
    for (int lane = 0; lane < 32; ++lane) {
      if (next[lane] == end[lane] || account_of(*next[lane]) != account) continue;
      mask |= 1u << lane;
      address[lane] = *next[lane]++ & (kRecordShared - 1);
      --left_[account][lane];
    }
    count(account, mask, address);
  }
}

// Chooses the access to count among the lanes' next ones. An access whose lanes need not wait for
// other lanes goes first; otherwise the order of the source decides.
std::size_t RequestCounter::next_account(const Record* const next[32],
                                         const Record* const end[32]) const {
  const std::vector<std::uint32_t>& rank = sites_.ranks();
  std::size_t first = kNoAccount;
  bool first_waits = true;
  for (int lane = 0; lane < 32; ++lane) {
    if (next[lane] == end[lane]) continue;
    const std::size_t account = account_of(*next[lane]);
    if (account == first) continue;
    std::uint32_t here = 0, elsewhere = 0;  // maximum of a lane's remaining accesses
    for (int other = 0; other < 32; ++other) {
      if (next[other] == end[other]) continue;
      auto& most = account_of(*next[other]) == account ? here : elsewhere;
      most = std::max(most, left_[account][other]);
    }
    const bool waits = here <= elsewhere;
    if (first == kNoAccount || waits < first_waits ||
        (waits == first_waits && rank[site_of(account)] < rank[site_of(first)])) {
      first = account;
      first_waits = waits;
    }
  }
  return first;
}

void RequestCounter::count(std::size_t account, std::uint32_t mask, const std::uintptr_t* address) {
  if (account >= accounts_.size()) accounts_.resize(2 * sites_.count());
  SiteCounts& counts = accounts_[account];
  const std::size_t size = sites_[site_of(account)].size;
  Wavefronts wavefronts{0, 0};
  int sectors = 0;
  if (is_shared(account)) {
    wavefronts = bank_wavefronts(size, sites_[site_of(account)].kind, mask, address);
  } else {
    sectors = sectors_touched(size, mask, address);
  }
  ++counts.requests;
  counts.bytes += size * __builtin_popcount(mask);
  counts.sectors += sectors;
  counts.wavefronts += wavefronts.taken;
  counts.conflicts += wavefronts.taken - wavefronts.ideal;
  if (!recorder_.on()) return;
  recorder_.request({static_cast<std::uint16_t>(site_of(account)), is_shared(account), mask,
                     address, static_cast<std::uint64_t>(sectors),
                     static_cast<std::uint64_t>(wavefronts.taken),
                     static_cast<std::uint64_t>(wavefronts.taken - wavefronts.ideal)});
}

void RequestCounter::count_copy(std::uint16_t site, std::uint64_t bytes, std::uint64_t sectors) {
  const std::size_t account = account_of(make_record(site, false, 0));
  if (account >= accounts_.size()) accounts_.resize(2 * sites_.count());
  SiteCounts& counts = accounts_[account];
  ++counts.requests;
  counts.bytes += bytes;
  counts.sectors += sectors;
}

Counts RequestCounter::totals() const {
  Counts sum;
  for (std::size_t account = 0; account < accounts_.size(); ++account) {
    const SiteCounts& counts = accounts_[account];
    const AccessKind kind = sites_[site_of(account)].kind;
    const bool shared = is_shared(account);
    sum.shared_wavefronts += counts.wavefronts;
    sum.bank_conflicts += counts.conflicts;
    if (shared) sum.shared_requests += counts.requests;
    if (kind != AccessKind::kWrite) {
      (shared ? sum.shared_read_bytes : sum.global_read_bytes) += counts.bytes;
      sum.global_read_sectors += counts.sectors;
      if (!shared) sum.global_read_requests += counts.requests;
    }
    if (kind != AccessKind::kRead) {
      (shared ? sum.shared_write_bytes : sum.global_write_bytes) += counts.bytes;
      sum.global_write_sectors += counts.sectors;
      if (!shared) sum.global_write_requests += counts.requests;
    }
  }
  return sum;
}

std::vector<LineCounts> RequestCounter::by_line() const {
  std::map<std::tuple<std::string, int, bool, bool>, LineCounts> lines;
  for (std::size_t account = 0; account < accounts_.size(); ++account) {
    const SiteCounts& counts = accounts_[account];
    if (counts.requests == 0) continue;
    const Site& site = sites_[site_of(account)];
    const bool shared = is_shared(account), write = site.kind != AccessKind::kRead;
    LineCounts& line = lines[{site.place.file, site.place.line, shared, write}];
    line.file = site.place.file;
    line.line = site.place.line;
    line.shared = shared;
    line.write = write;
    line.requests += counts.requests;
    line.bytes += counts.bytes;
    line.sectors += counts.sectors;
    line.wavefronts += counts.wavefronts;
    line.conflicts += counts.conflicts;
  }
  std::vector<LineCounts> sorted;
  for (auto& [key, line] : lines) sorted.push_back(std::move(line));
  return sorted;
}

namespace {

// An exact set of at most 64 numbers.
class SmallSet {
 public:
  // True if the number was not in the set.
  bool insert(std::uintptr_t number) {
    for (std::size_t slot = number * 0x9e3779b97f4a7c15 >> 58;; slot = (slot + 1) % kSlots) {
      if ((used_ >> slot & 1) == 0) {
        used_ |= std::uint64_t{1} << slot;
        numbers_[slot] = number;
        return true;
      }
      if (numbers_[slot] == number) return false;
    }
  }

 private:
  static constexpr std::size_t kSlots = 64;
  std::uint64_t used_ = 0;
  std::uintptr_t numbers_[kSlots];
};

// Copies the addresses of the lanes of `mask` without gaps.
int gather(std::uint32_t mask, const std::uintptr_t* address, std::uintptr_t* out) {
  int count = 0;
  for (; mask != 0; mask &= mask - 1) out[count++] = address[__builtin_ctz(mask)];
  return count;
}

// True if every pair of lanes n and n ^ bit shares an address.
bool pairs_share(int bit, std::uint32_t mask, const std::uintptr_t* address) {
  for (int lane = 0; lane < 32; ++lane) {
    const int other = lane ^ bit;
    const bool both = (mask >> lane & mask >> other & 1) != 0;
    if (both && address[lane] != address[other]) return false;
  }
  return true;
}

}  // namespace

int sectors_touched(std::size_t size, std::uint32_t mask, const std::uintptr_t* address) {
  std::uintptr_t present[32];
  if (mask != ~0u) {
    const int lanes = gather(mask, address, present);
    for (int i = lanes; i < 32; ++i) present[i] = present[lanes - 1];
    address = present;
  }
  // If the addresses ascend, each change of sector is a new sector.
  int changes = 0;
  std::uintptr_t descends = 0, low_bits = address[0], last = address[0] / 32;
  for (int lane = 1; lane < 32; ++lane) {
    const std::uintptr_t sector = address[lane] / 32;
    changes += sector != last;
    descends |= sector - last;  // the top bit
    low_bits |= address[lane];
    last = sector;
  }
  const bool inside_sectors = (low_bits & (size - 1)) == 0;
  if (static_cast<std::intptr_t>(descends) >= 0 && inside_sectors) return changes + 1;

  SmallSet sectors;
  int count = 0;
  for (int lane = 0; lane < 32; ++lane) {
    for (std::uintptr_t s = address[lane] / 32; s <= (address[lane] + size - 1) / 32; ++s) {
      count += sectors.insert(s);
    }
  }
  return count;
}

Wavefronts bank_wavefronts(std::size_t size, AccessKind kind, std::uint32_t mask,
                           const std::uintptr_t* address) {
  const int part_lanes = size <= 4 ? 32 : size == 8 ? 16 : 8;
  const bool paired = kind == AccessKind::kRead && part_lanes < 32 &&
                      (pairs_share(1, mask, address) || pairs_share(2, mask, address));
  const int lanes_at_once = paired ? 2 * part_lanes : part_lanes;
  Wavefronts total{0, 0};
  for (int begin = 0; begin < 32; begin += lanes_at_once) {
    std::uint32_t part = mask >> begin;
    if (lanes_at_once < 32) part &= (1u << lanes_at_once) - 1;
    if (part == 0) continue;
    ++total.ideal;
    std::uintptr_t present[32];
    const int lanes = gather(part, address + begin, present);
    std::uintptr_t low = present[0], high = present[0];
    for (int i = 0; i < lanes; ++i) {
      low = std::min(low, present[i]);
      high = std::max(high, present[i]);
    }
    // No two of 32 neighbouring words are in one bank.
    if ((high + size - 1) / 4 - low / 4 < 32) {
      ++total.taken;
      continue;
    }
    // Different words of one bank need one wavefront each; lanes that share a word share it.
    SmallSet words;
    int words_in_bank[32] = {};
    int most = 0;
    for (int i = 0; i < lanes; ++i) {
      for (std::size_t offset = 0; offset < size; offset += 4) {
        const std::uintptr_t word = (present[i] + offset) / 4;
        if (words.insert(word)) most = std::max(most, ++words_in_bank[word % 32]);
      }
    }
    total.taken += most;
  }
  return total;
}

}  // namespace cuflash::simt
