// What 16_overlapped_backward asks for.
#include "harness/tile_of.h"
#include "kernel_bwd.cuh"

namespace cuflash::overlapped_backward {
namespace {

using namespace harness;

constexpr auto backward_tile = backward_tile_of<BackwardConfig, UsualHeadDims>;

template <int kHeadDim>
Traffic backward_of(const Problem& p) {
  using C = BackwardConfig<kHeadDim>;
  const Sizes n(p);
  const Workspace work = workspace<kHeadDim>(BackwardParams(p, Backward()));
  const std::uint64_t padded_rows = work.all_tiles * C::kStreamed;
  const std::uint64_t dq = padded_rows * kHeadDim * kFloat;
  const Streamed queries = streamed_queries(p, {C::kOwned, C::kStreamed});
  const std::uint64_t streamed_rows = queries.tiles * C::kStreamed;
  Traffic t;
  // row_delta: O, dO and LSE; LSE and delta of whole tiles, and zeros for dQ.
  t.read_bytes += n.rows * (2 * n.row_bytes + kFloat);
  t.write_bytes += padded_rows * 2 * kFloat + dq;
  // gradients: K and V, tiles of Q and dO, their LSE and delta; what it adds to dQ is read and
  // written; dK and dV.
  t.read_bytes += 2 * (n.kv_rows + queries.rows) * n.row_bytes;
  t.read_bytes += streamed_rows * (2 + kHeadDim) * kFloat;
  t.write_bytes += streamed_rows * kHeadDim * kFloat;
  t.write_bytes += 2 * n.kv_rows * n.row_bytes;
  // query_gradient: dQ, in f32 and rounded.
  t.read_bytes += dq;
  t.write_bytes += n.rows * n.row_bytes;
  return t;
}

Traffic backward(const Problem& p) {
  return dispatch(TensorCoreTypes{}, UsualHeadDims{}, p, Traffic{},
                  [&](auto, auto head_dim) { return backward_of<head_dim()>(p); });
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{}, {backward, backward_tile}};

}  // namespace cuflash::overlapped_backward
