// What 18_dq_on_the_way asks for.
#include "device/host/resident_grid.h"
#include "harness/tile_of.h"
#include "pieces.cuh"

namespace cuflash::dq_on_the_way {
namespace {

using namespace harness;

constexpr auto backward_tile = backward_tile_of<BackwardConfig, UsualHeadDims>;

Traffic backward(const Problem& problem) {
  return added_backward(problem, backward_tile(problem), 0);
}

// How far the blocks have come, in memory.
Traffic resident(const Problem& problem, const Device& device) {
  const BackwardParams p(problem, {});
  const std::int64_t pieces =
      std::int64_t{p.batch} * p.heads_kv * num_tiles(p.seq_kv, backward_tile(problem).owned);
  const std::int64_t blocks = num_resident_blocks(pieces, device);
  const Schedule schedule = dispatch(
      EveryType{}, UsualHeadDims{}, problem, Schedule{},
      [&](auto, auto head_dim) { return make_schedule<BackwardConfig<head_dim()>>(p, blocks); });
  // Each block asks once more than it gets pieces. One thread waits for the zeros of a group of
  // which some are written on the way, and counts what it has added; two warps count their zeros,
  // and wait for what they are to round.
  std::uint64_t counts =
      blocks + pieces + kKeepers * ((pieces - schedule.lead) + (pieces - schedule.lag));
  for (int n = 0; n < pieces; ++n) {
    counts += schedule.zeroed_pieces(schedule.order.group_of(n)) > 0 ? 1 : 0;
  }
  // Two counts for each KV head begin as zeros.
  return {counts * sizeof(unsigned), (counts + 2 * schedule.order.heads) * sizeof(unsigned)};
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{}, {backward, backward_tile, resident}};

}  // namespace cuflash::dq_on_the_way
