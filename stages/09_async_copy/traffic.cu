// What 09_async_copy asks for.
#include "harness/tile_of.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::async_copy {
namespace {

using namespace harness;

constexpr auto forward_tile = forward_tile_of<Config, EveryHeadDim>;
constexpr auto backward_tile = backward_tile_of<BackwardConfig, EveryHeadDim>;

Traffic forward(const Problem& p) { return fused_forward(p, forward_tile(p)); }

// Of a deterministic call.
template <int kHeadDim>
Traffic backward_of(const Problem& p) {
  using C = BackwardConfig<kHeadDim>;
  const Sizes n(p);
  const Workspace work = workspace<kHeadDim>(BackwardParams(p, Backward()));
  const std::uint64_t padded_rows = work.all_tiles * C::kStreamed;
  const std::uint64_t dq = work.slices * padded_rows * kHeadDim * kFloat;
  const Streamed queries = streamed_queries(p, {C::kOwned, C::kStreamed});
  const std::uint64_t streamed_rows = queries.tiles * C::kStreamed;
  const std::uint64_t kernels = C::kApart ? 2 : 1;
  Traffic t;
  // row_delta: O, dO and LSE; LSE and delta of whole tiles, and zeros for dQ.
  t.read_bytes += n.rows * (2 * n.row_bytes + kFloat);
  t.write_bytes += padded_rows * 2 * kFloat + dq;
  // gradients: K and V, tiles of Q and dO, their LSE and delta; what it adds to dQ is read and
  // written; dK and dV.
  t.read_bytes += kernels * 2 * (n.kv_rows + queries.rows) * n.row_bytes;
  t.read_bytes += kernels * streamed_rows * 2 * kFloat;
  t.read_bytes += streamed_rows * kHeadDim * kFloat;
  t.write_bytes += streamed_rows * kHeadDim * kFloat;
  t.write_bytes += 2 * n.kv_rows * n.row_bytes;
  // query_gradient: the slices of dQ; dQ.
  t.read_bytes += dq;
  t.write_bytes += n.rows * n.row_bytes;
  return t;
}

Traffic backward(const Problem& p) {
  return dispatch(TensorCoreTypes{}, EveryHeadDim{}, p, Traffic{},
                  [&](auto, auto head_dim) { return backward_of<head_dim()>(p); });
}

}  // namespace

extern const StageTraffic kTraffic;
const StageTraffic kTraffic = {{forward, forward_tile}, {backward, backward_tile}};

}  // namespace cuflash::async_copy
