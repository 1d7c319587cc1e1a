#include "simt/waits.h"

#include <algorithm>
#include <tuple>

#include "simt/core.h"

namespace cuflash::simt {

Waits::Wait Waits::wait_at(std::uintptr_t return_address, bool of_warp) const {
  const SourcePlace& place = source_place(return_address);
  Wait wait;
  wait.place = {short_location(place), place.file, place.line, of_warp};
  wait.skipped = wait.place.location == skipped_;
  return wait;
}

void Waits::skip(const std::string& location) {
  skipped_ = location;
  at_.clear();
}

// The compiler may have made several copies of a line.
std::vector<WaitPlace> Waits::places() const {
  std::vector<WaitPlace> places;
  for (const auto& [address, wait] : at_) places.push_back(wait.place);
  const auto key = [](const WaitPlace& place) { return std::tie(place.location, place.of_warp); };
  std::sort(places.begin(), places.end(),
            [&](const WaitPlace& a, const WaitPlace& b) { return key(a) < key(b); });
  places.erase(
      std::unique(places.begin(), places.end(),
                  [&](const WaitPlace& a, const WaitPlace& b) { return key(a) == key(b); }),
      places.end());
  return places;
}

std::vector<WaitPlace> wait_places() {
  const std::lock_guard<std::mutex> lock(core.mutex);
  return core.waits.places();
}

void skip_waits_at(const std::string& location) {
  const std::lock_guard<std::mutex> lock(core.mutex);
  core.waits.skip(location);
}

}  // namespace cuflash::simt
