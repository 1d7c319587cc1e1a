#include "copy_stage.h"
#include "device/host/grid.h"
#include "device/host/pass.h"
#include "device/shared_memory.h"
#include "device/tile_mark.h"
#include "device/vector.h"

namespace cuflash::exercises {
namespace {

struct Storage {
  float sQ[kRows][kPitch];
};

// A thread loads four neighbours, and writes a column.
template <class T, Planted kPlanted>
__global__ void copy(const ForwardParams p) {
  auto& s = shared_storage<Storage>();
  constexpr bool kOfV = kPlanted == Planted::kTwoMoreBarriers;
  const auto gQ = rows<const T>(kOfV ? p.v : kPlanted == Planted::kOtherTensor ? p.k : p.q, 0, 0);
  const auto gO = rows<T>(p.o, 0, 0);
  const int thread = threadIdx.x, row = thread / 8, column = thread % 8 * 4;

  mark_tile("Q tile", 5);
  store4(&s.sQ[row][column], load4(&gQ(kOfV ? 0 : row, column)));
  __syncthreads();
  if constexpr (kOfV) {
    __syncthreads();
    // ---- your lines begin
    __syncthreads();  // the student's
    // ---- your lines end
  }
  for (int r = 0; r < kRows; ++r) {
    if (kPlanted == Planted::kLastRowLeftOut && r == kRows - 1) break;
    const float* from = &s.sQ[r][thread];
    if (kPlanted == Planted::kRowsTooClose) from = &s.sQ[0][0] + r * kHeadDim + thread;
    if (kPlanted == Planted::kPaddingRead) from += 4;
    const float x = *from;  // reads sQ
    gO(r, thread) = T(kPlanted == Planted::kDoubled ? 2 * x : x);
  }
  if (kPlanted == Planted::kOneRowMore && thread < kRows) p.lse[thread] = 1.f;
}

__global__ void fill_workspace(const ForwardParams p) {
  static_cast<float*>(p.workspace)[threadIdx.x] = float(threadIdx.x);
}

// forward_pass() takes templates of a type and a head dimension.
template <Planted kPlanted>
struct Copy {
  template <class T, int>
  struct Kernels {
    static constexpr std::size_t kSharedBytes = sizeof(Storage);
    static FlashAttentionError run(const ForwardParams& p, cudaStream_t stream) {
      return queue(stream, one_block_per_q_tile<Storage>(kRows, 32, copy<T, kPlanted>, p));
    }
  };
};

template <class T, int>
struct Fill {
  static constexpr std::size_t kSharedBytes = 0;
  static FlashAttentionError run(const ForwardParams& p, cudaStream_t stream) {
    return queue(stream, one_block_per_q_tile<Storage>(kRows, 32, fill_workspace, p));
  }
};

template <template <class, int> class Kernels>
Stage stage_of(const char* name) {
  Stage stage;
  stage.name = name;
  stage.forward = forward_pass<Kernels, TypeList<float, __half>, IntList<kHeadDim>>();
  return stage;
}

}  // namespace

Stage copy_stage(Planted planted) {
  switch (planted) {
    case Planted::kNone:
      return stage_of<Copy<Planted::kNone>::Kernels>("copy");
    case Planted::kDoubled:
      return stage_of<Copy<Planted::kDoubled>::Kernels>("doubled");
    case Planted::kLastRowLeftOut:
      return stage_of<Copy<Planted::kLastRowLeftOut>::Kernels>("last_row_left_out");
    case Planted::kOneRowMore:
      return stage_of<Copy<Planted::kOneRowMore>::Kernels>("one_row_more");
    case Planted::kRowsTooClose:
      return stage_of<Copy<Planted::kRowsTooClose>::Kernels>("rows_too_close");
    case Planted::kPaddingRead:
      return stage_of<Copy<Planted::kPaddingRead>::Kernels>("padding_read");
    case Planted::kOtherTensor:
      return stage_of<Copy<Planted::kOtherTensor>::Kernels>("other_tensor");
    case Planted::kTwoMoreBarriers:
      return stage_of<Copy<Planted::kTwoMoreBarriers>::Kernels>("two_more_barriers");
  }
  return {};
}

Stage workspace_stage(bool keeps_scores) {
  Stage stage = stage_of<Fill>("workspace");
  stage.forward.keeps_scores = keeps_scores;
  stage.forward.workspace_bytes = [](const Problem&) { return 32 * sizeof(float); };
  return stage;
}

}  // namespace cuflash::exercises
