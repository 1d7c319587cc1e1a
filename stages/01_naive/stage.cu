// 01_naive: what the stage can do, and the host code that launches its kernels.
#include "device/host/grid.h"
#include "device/host/pass.h"
#include "kernel.cuh"
#include "kernel_bwd.cuh"

namespace cuflash::naive {
namespace {

constexpr int kThreads = 256;

std::int64_t num_scores(const Problem& p) { return num_rows(p) * p.seq_kv; }

template <class T, int kHeadDim>
struct ForwardKernels {
  static constexpr std::size_t kSharedBytes = 0;

  static FlashAttentionError run(const ForwardParams& p, cudaStream_t stream) {
    const auto S = static_cast<float*>(p.workspace);
    return queue(stream, one_thread_per(num_scores(p), kThreads, scores<T, kHeadDim>, p, S),
                 one_thread_per(num_rows(p), kThreads, softmax, p, S),
                 one_thread_per(num_rows(p) * kHeadDim, kThreads, output<T, kHeadDim>, p, S));
  }
};

template <class T, int kHeadDim>
struct BackwardKernels {
  static constexpr std::size_t kSharedBytes = 0;

  static FlashAttentionError run(const BackwardParams& p, cudaStream_t stream) {
    const auto P = static_cast<float*>(p.workspace);
    const auto dS = P + num_scores(p);
    const auto row_delta = dS + num_scores(p);
    const auto num_kv = std::int64_t{p.batch} * p.heads_kv * p.seq_kv * kHeadDim;
    const auto kv_gradient = key_value_gradient<T, kHeadDim>;
    return queue(
        stream, one_thread_per(num_rows(p), kThreads, delta<T, kHeadDim>, p, row_delta),
        one_thread_per(num_scores(p), kThreads, score_gradients<T, kHeadDim>, p, row_delta, P, dS),
        one_thread_per(num_rows(p) * kHeadDim, kThreads, query_gradient<T, kHeadDim>, p, dS)
            .only_if(p.dq.data != nullptr),
        one_thread_per(num_kv, kThreads, kv_gradient, p, dS, p.q, p.dk, p.softmax_scale)
            .only_if(p.dk.data != nullptr),
        one_thread_per(num_kv, kThreads, kv_gradient, p, P, p.d_o, p.dv, 1.f)
            .only_if(p.dv.data != nullptr));
  }
};

// S, which becomes P.
std::size_t forward_workspace(const Problem& p) {
  return static_cast<std::size_t>(num_scores(p)) * sizeof(float);
}
// P, dS and delta.
std::size_t backward_workspace(const Problem& p) {
  return 2 * forward_workspace(p) + one_float_per_row(p);
}

constexpr Stage describe() {
  Stage stage;
  stage.name = "01_naive";
  stage.teaches = "attention as plain loops; S and P in global memory";
  stage.removes = "nothing: it is the first rung";
  stage.limiter = "re-reads all of K and V for every query; K uncoalesced";
  stage.forward = forward_pass<ForwardKernels, EveryType, UsualHeadDims>();
  stage.forward.features = kDenseFeatures;
  stage.forward.products = products<2>;
  stage.forward.keeps_scores = true;
  stage.forward.workspace_bytes = forward_workspace;
  stage.backward = backward_pass<BackwardKernels, EveryType, UsualHeadDims>();
  stage.backward.features = kDenseFeatures;
  stage.backward.products = products<5>;
  stage.backward.keeps_scores = true;
  stage.backward.workspace_bytes = backward_workspace;
  return stage;
}

}  // namespace

extern const Stage kStage;
constexpr Stage kStage = describe();

}  // namespace cuflash::naive
