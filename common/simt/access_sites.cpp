#include "simt/access_sites.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace cuflash::simt {

std::uint16_t Sites::look_up(std::uintptr_t return_address, AccessKind kind, std::size_t size,
                             std::size_t element) {
  Cached& cached = cache_[slot(return_address, kind, size)];
  if (is_standard_library(return_address)) {
    cached = {return_address, access(kind, size), kForeign};
    return kForeign;
  }
  const SourcePlace& place = source_place(return_address);
  std::string key = place.chain;
  // Without debug information every instruction is its own site.
  if (key.empty()) key = std::to_string(return_address);
  key += std::to_string(static_cast<int>(kind)) + '/' + std::to_string(size);
  const auto [entry, added] = ids_.emplace(key, static_cast<std::uint16_t>(sites_.size()));
  if (added && sites_.size() > 0xffff) {
    entry->second = 0;
  } else if (added) {
    sites_.push_back(
        {place, kind, static_cast<std::uint8_t>(size), static_cast<std::uint8_t>(element)});
  }
  cached = {return_address, access(kind, size), entry->second};
  return entry->second;
}

const std::vector<std::uint32_t>& Sites::ranks() const {
  if (ranks_.size() == sites_.size()) return ranks_;
  std::vector<std::uint32_t> order(sites_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
    const Site &x = sites_[a], &y = sites_[b];
    return std::tie(x.place.order, x.kind) < std::tie(y.place.order, y.kind);
  });
  ranks_.resize(sites_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) ranks_[order[i]] = i;
  return ranks_;
}

}  // namespace cuflash::simt
