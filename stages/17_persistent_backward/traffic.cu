// What 17_persistent_backward asks for.
#include "device/host/resident_grid.h"
#include "harness/tile_of.h"
#include "pieces.cuh"

namespace cuflash::persistent_backward {
namespace {

using namespace harness;

constexpr auto backward_tile = backward_tile_of<BackwardConfig, UsualHeadDims>;

Traffic backward(const Problem& problem) {
  return added_backward(problem, backward_tile(problem), 2);
}

// The pieces that blocks take.
Traffic resident(const Problem& problem, const Device& device) {
  const BackwardParams p(problem, {});
  const std::int64_t pieces =
      std::int64_t{p.batch} * p.heads_kv * num_tiles(p.seq_kv, backward_tile(problem).owned);
  const std::int64_t blocks = num_resident_blocks(pieces, device);
  // Each block asks once more than it gets pieces.
  const std::uint64_t more = blocks * sizeof(unsigned);
  return {more, more};
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{}, {backward, backward_tile, resident}};

}  // namespace cuflash::persistent_backward
