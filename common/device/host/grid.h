// Grids of a stage's kernels, and the function that queues them one after the other. All grids are
// one-dimensional.
#ifndef CUFLASH_DEVICE_HOST_GRID_H_
#define CUFLASH_DEVICE_HOST_GRID_H_

#include <tuple>

#include "device/host/launch.h"
#include "device/index.h"
#include "device/tensor.h"

namespace cuflash {

// A kernel with its grid and its arguments, not yet queued.
template <class Kernel, class... Args>
struct Grid {
  Kernel kernel;
  std::int64_t blocks;
  int threads;
  SharedLayout shared;
  std::tuple<Args...> args;
  bool wanted = true;

  // A copy of this grid that is queued only if the condition holds.
  Grid only_if(bool condition) const {
    Grid grid = *this;
    grid.wanted = condition;
    return grid;
  }
};

// One thread per element, for `count` elements. `count` is the kernel's last argument.
template <class Kernel, class... Args>
Grid<Kernel, Args..., std::int64_t> one_thread_per(std::int64_t count, int threads, Kernel kernel,
                                                   const Args&... args) {
  return {kernel, (count + threads - 1) / threads, threads, {}, {args..., count}};
}

// One block per tile of `rows` queries of a head, with Storage in its shared memory.
template <class Storage, class Kernel, class Params, class... Args>
Grid<Kernel, Params, Args...> one_block_per_q_tile(int rows, int threads, Kernel kernel,
                                                   const Params& p, const Args&... args) {
  const std::int64_t blocks = std::int64_t{p.batch} * p.heads_q * num_tiles(p.seq_q, rows);
  return {kernel, blocks, threads, shared_layout<Storage>(), {p, args...}};
}

// One block per tile of `rows` keys of a head, with Storage in its shared memory.
template <class Storage, class Kernel, class Params, class... Args>
Grid<Kernel, Params, Args...> one_block_per_kv_tile(int rows, int threads, Kernel kernel,
                                                    const Params& p, const Args&... args) {
  const std::int64_t blocks = std::int64_t{p.batch} * p.heads_kv * num_tiles(p.seq_kv, rows);
  return {kernel, blocks, threads, shared_layout<Storage>(), {p, args...}};
}

template <class Kernel, class... Args>
FlashAttentionError queue_grid(const Grid<Kernel, Args...>& grid, cudaStream_t stream) {
  const LaunchConfig config = {dim3(static_cast<unsigned>(grid.blocks)),
                               dim3(static_cast<unsigned>(grid.threads)), grid.shared, stream};
  return std::apply([&](const auto&... args) { return launch(grid.kernel, config, args...); },
                    grid.args);
}

// Queues the wanted kernels in this order, up to the first failure. If one of the grids has too
// many blocks, it queues none and returns SIZE_OVERFLOW.
template <class... Grids>
FlashAttentionError queue(cudaStream_t stream, const Grids&... grids) {
  if (((grids.blocks > kMaxBlocks) || ...)) return FlashAttentionError::SIZE_OVERFLOW;
  auto error = FlashAttentionError::SUCCESS;
  const auto next = [&](const auto& grid) {
    if (grid.wanted) error = queue_grid(grid, stream);
    return error == FlashAttentionError::SUCCESS;
  };
  (void)(next(grids) && ...);
  return error;
}

}  // namespace cuflash

#endif  // CUFLASH_DEVICE_HOST_GRID_H_
