// Requests for tiles that TMA copies into a ring of buffers (stage 10_tma explains them).
#ifndef CUFLASH_DEVICE_TILE_REQUESTS_H_
#define CUFLASH_DEVICE_TILE_REQUESTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "device/host/tile_map.h"
#include "device/instruments/points.h"
#include "device/ptx/mbarrier.h"
#include "device/ptx/tensor_copy.h"
#include "device/swizzle.h"

namespace cuflash {

// The buffer of the nth tile that a block copies, and the parity of its barriers' phase. Each
// buffer holds every kStages-th tile.
struct Slot {
  int stage;
  unsigned phase;
};
template <int kStages>
__device__ __forceinline__ Slot slot_of(unsigned n) {
  return {static_cast<int>(n % kStages), n / kStages % 2};
}

// Requests a copy of the rows from `first` of a head into a tile, one box per panel. Rows past the
// end become zeros. The phase of `full` completes when all panels have arrived.
template <class T, int kRows, int kHeadDim>
__device__ __forceinline__ void request_tile(SwizzledTile<T, kRows, kHeadDim>& tile,
                                             const TileMap& map, int first, int head, int batch,
                                             std::uint64_t& full, instruments::Line line = {}) {
  const instruments::Span span(instruments::Kind::kRequest, line, ptx::SharedAddress(&full).value);
  using Tile = SwizzledTile<T, kRows, kHeadDim>;
  ptx::mbarrier_arrive_expect_tx(&full, sizeof(tile.panels));
#pragma unroll
  for (int panel = 0; panel < Tile::kPanels; ++panel) {
    ptx::tensor_copy(tile.panels[panel], map, panel * Tile::kPanelCols, first, head, batch, &full);
  }
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_TILE_REQUESTS_H_
