// 01_naive: what the stage can do, and the host code that launches its kernels.
#include <algorithm>

#include "cuflash/stage.h"
#include "device/launch.h"
#include "device/types.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::naive {
namespace {

using Types = TypeList<float, __half, __nv_bfloat16>;
using Dims = IntList<32, 64, 128>;

constexpr int kThreads = 256;

std::int64_t num_rows(const Problem& p) { return std::int64_t{p.batch} * p.heads_q * p.seq_q; }
Tile tile(Pass, const Problem&) { return {}; }
std::int64_t num_scores(const Problem& p) { return num_rows(p) * p.seq_kv; }

// Forward: S, which becomes P. Backward: P, dS and delta.
std::size_t workspace_bytes(Pass pass, const Problem& p) {
  const std::int64_t floats =
      pass == CUFLASH_FORWARD ? num_scores(p) : 2 * num_scores(p) + num_rows(p);
  return static_cast<std::size_t>(floats) * sizeof(float);
}

// Has a grid a thread for each element of the largest kernel's?
bool fits(const Problem& p) {
  const std::int64_t kv_rows = std::int64_t{p.batch} * p.heads_kv * p.seq_kv;
  return std::max({num_scores(p), num_rows(p) * p.head_dim, kv_rows * p.head_dim}) <=
         max_count(kThreads);
}

// Queues one kernel with a thread for each of `count` elements; the kernel's last argument is
// count.
template <class Kernel, class... Args>
FlashAttentionError launch_each(Kernel kernel, std::int64_t count, cudaStream_t stream,
                                const Args&... args) {
  return launch(kernel, {grid_for(count, kThreads), dim3(kThreads), 0, stream}, args..., count);
}

template <class T, int kHeadDim>
FlashAttentionError run_forward(const ForwardParams& p, cudaStream_t stream) {
  const auto S = static_cast<float*>(p.workspace);
  auto error = launch_each(scores<T, kHeadDim>, num_scores(p), stream, p, S);
  if (error == FlashAttentionError::SUCCESS) {
    error = launch_each(softmax, num_rows(p), stream, p, S);
  }
  if (error == FlashAttentionError::SUCCESS) {
    error = launch_each(output<T, kHeadDim>, num_rows(p) * kHeadDim, stream, p, S);
  }
  return error;
}

template <class T, int kHeadDim>
FlashAttentionError run_backward(const BackwardParams& p, cudaStream_t stream) {
  const auto P = static_cast<float*>(p.workspace);
  const auto dS = P + num_scores(p);
  const auto row_delta = dS + num_scores(p);
  const std::int64_t kv_elements = std::int64_t{p.batch} * p.heads_kv * p.seq_kv * kHeadDim;
  auto error = launch_each(delta<T, kHeadDim>, num_rows(p), stream, p, row_delta);
  if (error == FlashAttentionError::SUCCESS) {
    error = launch_each(score_gradients<T, kHeadDim>, num_scores(p), stream, p, row_delta, P, dS);
  }
  if (error == FlashAttentionError::SUCCESS && p.dq.data != nullptr) {
    error = launch_each(query_gradient<T, kHeadDim>, num_rows(p) * kHeadDim, stream, p, dS);
  }
  if (error == FlashAttentionError::SUCCESS && p.dk.data != nullptr) {
    error = launch_each(key_value_gradient<T, kHeadDim>, kv_elements, stream, p, dS, p.q, p.dk,
                        p.softmax_scale);
  }
  if (error == FlashAttentionError::SUCCESS && p.dv.data != nullptr) {
    error =
        launch_each(key_value_gradient<T, kHeadDim>, kv_elements, stream, p, P, p.d_o, p.dv, 1.f);
  }
  return error;
}

FlashAttentionError forward(const Problem& p, const Forward& args, cudaStream_t stream) {
  if (!fits(p)) return FlashAttentionError::SIZE_OVERFLOW;
  return dispatch(Types{}, Dims{}, p, [&](auto type, auto head_dim) {
    return run_forward<typename decltype(type)::Type, head_dim()>({p, args}, stream);
  });
}

FlashAttentionError backward(const Problem& p, const Backward& args, cudaStream_t stream) {
  if (!fits(p)) return FlashAttentionError::SIZE_OVERFLOW;
  return dispatch(Types{}, Dims{}, p, [&](auto type, auto head_dim) {
    return run_backward<typename decltype(type)::Type, head_dim()>({p, args}, stream);
  });
}

}  // namespace

extern const Stage kStage;
const Stage kStage = {
    "01_naive",
    "attention as plain loops; S and P in global memory",
    "nothing: it is the first rung",
    "re-reads all of K and V for every query; K uncoalesced",
    {75, false},
    Types::kSet,
    Dims::kSet,
    0,
    true,
    tile,
    workspace_bytes,
    forward,
    backward,
};

}  // namespace cuflash::naive
