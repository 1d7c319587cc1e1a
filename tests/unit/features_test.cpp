// features_of() of a call: what its tensors' strides and its arguments ask of a stage.
#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

#include "cuflash/stage.h"

namespace cuflash {
namespace {

// A problem of two batches, of four query heads and two KV heads, and its call: every tensor has
// gaps.
template <class Args>
struct StridedCall {
  Problem problem{2, 4, 2, 5, 7, 64, CUFLASH_F16, false, 0.125f};
  Args args = make();

  bool needs_any_stride() const { return features_of(problem, args).has(Feature::kAnyStride); }

 private:
  static Args make() {
    alignas(16) static char memory[16];  // the address that all tensors get
    const Tensor t = {memory, 1 << 20, 1 << 12, 1 << 8};
    if constexpr (std::is_same_v<Args, Forward>) {
      return {t, t, t, t};
    } else {
      return {t, t, t, t, t, t, t, t, nullptr};
    }
  }
};

// Each tensor of a call with its sequence length, and each stride with the size of its dimension.
template <class Args, std::size_t kTensors>
void each_stride_counts(Tensor Args::*const (&tensors)[kTensors]) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 39;  // elements of 2 bytes
  EXPECT_FALSE(StridedCall<Args>().needs_any_stride());
  for (Tensor Args::*const tensor : tensors) {
    for (std::int64_t Tensor::*const stride :
         {&Tensor::batch_stride, &Tensor::head_stride, &Tensor::row_stride}) {
      StridedCall<Args> call;
      std::int64_t& value = call.args.*tensor.*stride;
      for (const std::int64_t usual : {std::int64_t{0}, kLimit - 8}) {
        value = usual;
        EXPECT_FALSE(call.needs_any_stride()) << usual;
      }
      for (const std::int64_t huge : {2 * kLimit, kLimit}) {
        value = huge;
        EXPECT_TRUE(call.needs_any_stride()) << huge;
      }

      // An extent of 1 has no stride, and a tensor without data has none.
      StridedCall<Args> one = call;
      if (stride == &Tensor::batch_stride) one.problem.batch = 1;
      if (stride == &Tensor::head_stride) one.problem.heads_q = one.problem.heads_kv = 1;
      if (stride == &Tensor::row_stride) one.problem.seq_q = one.problem.seq_kv = 1;
      EXPECT_FALSE(one.needs_any_stride());
      (call.args.*tensor).data = nullptr;
      EXPECT_FALSE(call.needs_any_stride());
    }
  }
}

TEST(FeaturesOfACall, EachStrideOfEachTensorCounts) {
  using F = cuflash_forward_args;
  using B = cuflash_backward_args;
  each_stride_counts<Forward>({&F::q, &F::k, &F::v, &F::o});
  each_stride_counts<Backward>({&B::q, &B::k, &B::v, &B::o, &B::d_o, &B::dq, &B::dk, &B::dv});
}

// The extents are those of the tensor itself.
TEST(FeaturesOfACall, QueriesAndKeysHaveTheirOwnExtents) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  StridedCall<Forward> call;
  call.args.k.head_stride = kHuge;
  EXPECT_TRUE(call.needs_any_stride());
  call.problem.heads_kv = 1;
  EXPECT_FALSE(call.needs_any_stride());
  call.args.q.row_stride = kHuge;
  EXPECT_TRUE(call.needs_any_stride());
  call.problem.seq_q = 1;
  EXPECT_FALSE(call.needs_any_stride());
}

TEST(FeaturesOfACall, HoldThoseOfItsProblem) {
  const Features of_problem = features_of(StridedCall<Forward>().problem);
  EXPECT_TRUE(of_problem.has(Feature::kGroupedHeads));
  EXPECT_EQ(features_of(StridedCall<Forward>().problem, StridedCall<Forward>().args).bits,
            of_problem.bits);
  StridedCall<Backward> call;
  EXPECT_EQ(features_of(call.problem, call.args).bits,
            of_problem.bits | static_cast<unsigned>(Feature::kDeterministic));
  call.args.deterministic = 0;
  EXPECT_EQ(features_of(call.problem, call.args).bits, of_problem.bits);
}

// A batch of one may read any of many caches.
TEST(FeaturesOfACall, TheBatchStrideOfAChosenCacheCounts) {
  const std::int32_t caches[1] = {};
  for (Tensor cuflash_forward_args::*const tensor :
       {&cuflash_forward_args::k, &cuflash_forward_args::v}) {
    StridedCall<Forward> call;
    call.problem.batch = 1;
    (call.args.*tensor).batch_stride = std::int64_t{1} << 40;
    EXPECT_FALSE(call.needs_any_stride());
    call.args.kv_batch = caches;
    EXPECT_TRUE(call.needs_any_stride());
  }
}

TEST(FeaturesOfACall, EachNullGradientCounts) {
  using B = cuflash_backward_args;
  for (Tensor B::*const gradient : {&B::dq, &B::dk, &B::dv}) {
    StridedCall<Backward> call;
    EXPECT_FALSE(features_of(call.problem, call.args).has(Feature::kNullGradients));
    (call.args.*gradient).data = nullptr;
    EXPECT_TRUE(features_of(call.problem, call.args).has(Feature::kNullGradients));
  }
}

}  // namespace
}  // namespace cuflash
