#include "simt/access_log.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "simt/core.h"

namespace cuflash::simt {
namespace {

constexpr std::size_t kWordBytes = 4;

// The array at an address: its name, elements and begin.
bool array_at(std::uintptr_t address, LoggedArray& array, std::uintptr_t& begin) {
  const Region* const region = core.region_of(address);
  if (region == nullptr) return false;
  array.kernel = core.kernel_name(core.launch()->kernel);
  array.shared = region->shared;
  array.name = array_name(region, address);
  begin = array_begin(region, address);
  if (!region->shared) array.bytes = region->bytes;
  if (region->shared && core.shared().is_dynamic(begin)) {
    array.offset = core.shared().dynamic_offset(begin);
  }
  const StorageLayout* const layout = region->shared ? core.shared().layout(address) : nullptr;
  if (layout == nullptr) return true;
  for (SharedArray& one : layout->arrays()) {
    if (one.name != array.name) continue;
    array.element_bytes = one.element_bytes;
    array.extents = std::move(one.extents);
    return true;
  }
  // Members of a union share the place, whatever their elements are: it is taken as words.
  const std::size_t offset = core.shared().dynamic_offset(address);
  array.element_bytes = kWordBytes;
  array.extents = {
      static_cast<int>((layout->array_end(offset) - layout->array_begin(offset)) / kWordBytes)};
  return true;
}

}  // namespace

LoggedAccess AccessRecorder::access_of(const Thread& self, std::uint16_t site) const {
  LoggedAccess access;
  access.launch = launches_;
  access.block = core.linear_block();
  access.thread = self.index;
  access.epoch = core.barriers_of_block();
  access.site = site;
  if (const TileMark* const tile = self.tile(); tile != nullptr) access.tile = tile->number;
  return access;
}

void AccessRecorder::begin(const Thread& self, std::uintptr_t address, std::size_t size,
                           AccessKind kind, std::uint16_t site) {
  Raw raw{address, access_of(self, site)};
  raw.access.write = kind != AccessKind::kRead;
  raw.access.bytes = static_cast<int>(size);
  raw_.push_back(raw);
  if (raw.access.write) pending_[self.index].push_back(raw_.size() - 1);
}

std::size_t AccessRecorder::begin_product(const Thread& first, std::uint16_t site, int rows,
                                          int cols) {
  log_.products.push_back({access_of(first, site), raw_.size(), rows, cols, {}, {}, {}});
  return log_.products.size() - 1;
}

void AccessRecorder::settle(int thread) {
  const auto pending = pending_.find(thread);
  if (pending == pending_.end()) return;
  for (const std::size_t n : pending->second) {
    Raw& raw = raw_[n];
    std::memcpy(raw.access.value, reinterpret_cast<const void*>(raw.address), raw.access.bytes);
  }
  pending_.erase(pending);
}

void AccessRecorder::note(const Thread& self, std::uintptr_t address, std::size_t size,
                          AccessKind kind, std::uint16_t site) {
  begin(self, address, size, kind, site);
  settle(self.index);
}

ArrayNumbers::Place ArrayNumbers::place_of(std::uintptr_t address) {
  LoggedArray array;
  std::uintptr_t begin = 0;
  if (!array_at(address, array, begin)) return {};
  const auto [known, added] =
      numbers_.emplace(array.kernel + ' ' + array.name, static_cast<int>(arrays_.size()));
  if (added) arrays_.push_back(std::move(array));
  return {known->second, static_cast<std::int64_t>(address - begin)};
}

std::vector<LoggedArray> ArrayNumbers::take() {
  numbers_.clear();
  return std::exchange(arrays_, {});
}

void AccessRecorder::end_launch() {
  pending_.clear();  // Killed threads: their addresses may be invalid.
  std::unordered_map<std::uintptr_t, ArrayNumbers::Place>
      places;  // Many accesses share an address.
  auto product = log_.products.begin() + static_cast<std::ptrdiff_t>(launch_products_);
  for (std::size_t n = 0; n <= raw_.size(); ++n) {
    while (product != log_.products.end() && product->before == n) {
      product++->before = log_.accesses.size();
    }
    if (n == raw_.size()) break;
    Raw& raw = raw_[n];
    const auto [place, is_new] = places.try_emplace(raw.address);
    if (is_new) place->second = arrays_.place_of(raw.address);
    if (place->second.array < 0) continue;
    raw.access.array = place->second.array;
    raw.access.offset = place->second.offset;
    log_.accesses.push_back(raw.access);
  }
  ++launches_;
}

AccessLog AccessRecorder::take(const Sites& sites) {
  for (std::size_t n = 0; n < sites.count(); ++n) {
    const SourcePlace& place = sites[static_cast<int>(n)].place;
    log_.sites.push_back({short_location(place), source_text(place)});
  }
  launches_ = 0;
  log_.arrays = arrays_.take();
  return std::exchange(log_, {});
}

void log_accesses(bool on) {
  const std::lock_guard<std::mutex> lock(core.mutex);
  core.recorder.turn(on);
}

AccessLog take_access_log() {
  const std::lock_guard<std::mutex> lock(core.mutex);
  return core.recorder.take(core.sites);
}

}  // namespace cuflash::simt
