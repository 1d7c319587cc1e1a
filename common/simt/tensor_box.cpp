#include "simt/tensor_box.h"

#include <algorithm>

#include "simt/core.h"

namespace cuflash::simt {

std::vector<BoxChunk> box_chunks(std::uintptr_t shared, const TensorMapArguments& map,
                                 const int (&first)[4]) {
  constexpr int kElement = TensorMapArguments::kElementBytes;
  constexpr int kElements = TensorMapArguments::kChunkBytes / kElement;
  std::vector<BoxChunk> chunks;
  const int box_rows = map.box[1] * map.box[2] * map.box[3];
  for (int row = 0; row < box_rows; ++row) {
    const std::int64_t x[4] = {first[0], first[1] + row % map.box[1],
                               first[2] + row / map.box[1] % map.box[2],
                               first[3] + row / map.box[1] / map.box[2]};
    bool inside = true;
    auto from = static_cast<std::int64_t>(as_address(map.data)) + x[0] * kElement;
    for (int i = 1; i < 4; ++i) {
      inside = inside && x[i] >= 0 && x[i] < map.extents[i];
      from += x[i] * map.stride(i);
    }
    for (int e = 0; e < map.box[0]; e += kElements) {
      const auto limited = [&](std::int64_t element) {
        return static_cast<std::size_t>(std::clamp<std::int64_t>(element - x[0] - e, 0, kElements) *
                                        kElement);
      };
      const std::size_t begin = limited(0), end = limited(inside ? map.extents[0] : 0);
      chunks.push_back({swizzled(shared + chunks.size() * BoxChunk::kBytes, map.swizzle),
                        static_cast<std::uintptr_t>(from + e * kElement), begin,
                        std::max(begin, end)});
    }
  }
  return chunks;
}

void check_box(const Thread& self, std::uintptr_t shared, std::size_t bytes, int innermost,
               std::uint16_t site, const std::string& verb) {
  core.check_operand(self, shared & ~(BoxChunk::kBytes - 1), BoxChunk::kBytes, site, true,
                     "cp.async.bulk.tensor " + verb);
  const auto fail = [&](Report kind, const std::string& what) {
    report_access(kind, self, &core.shared().region(), shared, site,
                  what + " The launch ends here.");
    core.kill_launch();
  };
  constexpr std::uintptr_t kAlignment = 128;
  if (shared % kAlignment != 0) {
    fail(Report::kMisaligned, "A box must begin at a multiple of 128 bytes.");
  }
  if (innermost * TensorMapArguments::kElementBytes % TensorMapArguments::kChunkBytes != 0) {
    fail(Report::kMisaligned,
         "The innermost coordinate of a box must be a multiple of 8 elements, "
         "16 bytes; this one is " +
             std::to_string(innermost) + '.');
  }
  check_span(self, shared, bytes, site);
}

void check_span(const Thread& self, std::uintptr_t shared, std::size_t bytes, std::uint16_t site) {
  if (core.shared().inside_variable(shared, bytes)) return;
  report_access(Report::kOutOfBounds, self, &core.shared().region(), shared, site,
                core.shared().explain_outside(shared, bytes) + " The launch ends here.");
  core.kill_launch();
}

}  // namespace cuflash::simt
