#include "simt/trace.h"

#include <algorithm>

namespace cuflash::simt {

std::uint16_t Sites::look_up(std::uintptr_t return_address, AccessKind kind, std::size_t size) {
  auto place = places_.find(return_address);
  if (place == places_.end()) {
    place = places_.emplace(return_address, find_source(return_address)).first;
  }
  std::string key = place->second.chain;
  // Without debug information every instruction is its own site.
  if (key.empty()) key = std::to_string(return_address);
  key += std::to_string(static_cast<int>(kind)) + '/' + std::to_string(size);
  const auto [entry, added] = ids_.emplace(key, static_cast<std::uint16_t>(sites_.size()));
  if (added && sites_.size() > 0xffff) {
    entry->second = 0;
  } else if (added) {
    sites_.push_back({place->second, kind, static_cast<std::uint8_t>(size)});
  }
  cache_[(return_address ^ size << 7) % kCacheSize] = {
      return_address, static_cast<std::uint16_t>(size), entry->second};
  return entry->second;
}

void Trace::flush(LaneTrace* const lanes[32]) {
  // Lanes in step: their i-th records have the same site. A lane that has ended drops out.
  int active[32];
  int num_active = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (lanes[lane] != nullptr && !lanes[lane]->empty()) active[num_active++] = lane;
  }
  std::size_t i = 0;
  for (bool in_step = true; num_active > 0; ++i) {
    std::uint32_t mask = 0;
    std::uintptr_t address[32];
    const Record first = (*lanes[active[0]])[i];
    for (int a = 0; a < num_active; ++a) {
      const Record record = (*lanes[active[a]])[i];
      in_step &= ((record ^ first) & ~(kRecordShared - 1)) == 0;
      mask |= 1u << active[a];
      address[active[a]] = record & (kRecordShared - 1);
    }
    if (!in_step) {
      join_divergent(lanes, i);
      break;
    }
    account(static_cast<std::uint16_t>(first >> kRecordSiteShift), (first & kRecordShared) != 0,
            mask, address);
    const int* end = std::remove_if(active, active + num_active,
                                    [&](int lane) { return lanes[lane]->size() == i + 1; });
    num_active = static_cast<int>(end - active);
  }
  for (int lane = 0; lane < 32; ++lane) {
    if (lanes[lane] != nullptr) lanes[lane]->clear();
  }
}

void Trace::join_divergent(LaneTrace* const lanes[32], std::size_t begin) {
  groups_.clear();
  groups_of_site_.resize(sites_.count());
  for (auto& groups : groups_of_site_) groups.clear();
  for (int lane = 0; lane < 32; ++lane) {
    if (lanes[lane] == nullptr) continue;
    occurrence_.assign(sites_.count(), 0);
    for (std::size_t i = begin; i < lanes[lane]->size(); ++i) {
      const Record record = (*lanes[lane])[i];
      const auto site = static_cast<std::uint16_t>(record >> kRecordSiteShift);
      std::vector<std::uint32_t>& groups = groups_of_site_[site];
      const std::uint32_t k = occurrence_[site]++;
      if (k == groups.size()) {
        groups.push_back(static_cast<std::uint32_t>(groups_.size()));
        groups_.push_back({site, (record & kRecordShared) != 0, 0, {}});
      }
      Group& group = groups_[groups[k]];
      group.mask |= 1u << lane;
      group.address[lane] = record & (kRecordShared - 1);
    }
  }
  for (const Group& group : groups_) account(group.site, group.shared, group.mask, group.address);
}

void Trace::account(std::uint16_t site_id, bool shared, std::uint32_t mask,
                    const std::uintptr_t* address) {
  const Site& site = sites_[site_id];
  if (shared) {
    const std::uint64_t bytes = std::uint64_t{site.size} * __builtin_popcount(mask);
    if (site.kind != AccessKind::kWrite) totals.shared_read_bytes += bytes;
    if (site.kind != AccessKind::kRead) totals.shared_write_bytes += bytes;
    account_shared(site.size, mask, address);
    return;
  }
  const std::uint64_t bytes = std::uint64_t{site.size} * __builtin_popcount(mask);
  const int sectors = sectors_touched(site.size, mask, address);
  if (site.kind != AccessKind::kWrite) {
    totals.global_read_bytes += bytes;
    totals.global_read_sectors += sectors;
    ++totals.global_read_requests;
  }
  if (site.kind != AccessKind::kRead) {
    totals.global_write_bytes += bytes;
    totals.global_write_sectors += sectors;
    ++totals.global_write_requests;
  }
}

void Trace::account_shared(std::size_t size, std::uint32_t mask, const std::uintptr_t* address) {
  const Wavefronts wavefronts = bank_wavefronts(size, mask, address);
  ++totals.shared_requests;
  totals.shared_wavefronts += wavefronts.taken;
  totals.bank_conflicts += wavefronts.taken - wavefronts.ideal;
}

namespace {

// A small set of numbers, exact, made for at most 64 of them.
class SmallSet {
 public:
  // True if the number was not in the set.
  bool insert(std::uintptr_t number) {
    for (std::size_t slot = number;; ++slot) {
      slot %= kSlots;
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

}  // namespace

int sectors_touched(std::size_t size, std::uint32_t mask, const std::uintptr_t* address) {
  SmallSet sectors;
  int count = 0;
  std::uintptr_t last = ~std::uintptr_t{0};
  for (; mask != 0; mask &= mask - 1) {
    const int lane = __builtin_ctz(mask);
    const std::uintptr_t begin = address[lane] / 32;
    const std::uintptr_t end = (address[lane] + size - 1) / 32;
    for (std::uintptr_t sector = begin; sector <= end; ++sector) {
      if (sector == last) continue;
      last = sector;
      count += sectors.insert(sector);
    }
  }
  return count;
}

Wavefronts bank_wavefronts(std::size_t size, std::uint32_t mask, const std::uintptr_t* address) {
  const int lanes_at_once = size <= 4 ? 32 : size == 8 ? 16 : 8;
  Wavefronts total{0, 0};
  for (int begin = 0; begin < 32; begin += lanes_at_once) {
    std::uint32_t part = mask >> begin;
    if (lanes_at_once < 32) part &= (1u << lanes_at_once) - 1;
    if (part == 0) continue;
    // Different words of one bank take turns; lanes that share a word do not.
    SmallSet words;
    int words_in_bank[32] = {};
    int most = 0;
    for (; part != 0; part &= part - 1) {
      const int lane = begin + __builtin_ctz(part);
      for (std::size_t offset = 0; offset < size; offset += 4) {
        const std::uintptr_t word = (address[lane] + offset) / 4;
        if (words.insert(word)) most = std::max(most, ++words_in_bank[word % 32]);
      }
    }
    total.taken += most;
    ++total.ideal;
  }
  return total;
}

}  // namespace cuflash::simt
