// The library's choice where the fastest stage does not support all strides, nor null gradients:
// this program has a list of stages of its own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <type_traits>

#include "cuflash/flash_attention.h"
#include "cuflash/stage.h"
#include "support/need_device.h"

namespace cuflash {
namespace {

const char* ran = "";  // the stage that ran last

// A stage for all problems in both passes, which needs some workspace.
template <int kNumber>
Stage describe(const char* name, Features features) {
  static const char* const stage_name = name;
  Stage stage;
  stage.name = name;
  for (PassFacts* facts :
       {static_cast<PassFacts*>(&stage.forward), static_cast<PassFacts*>(&stage.backward)}) {
    facts->dtypes = {7};
    facts->head_dims = {~0u};
    facts->features = features;
    facts->shared_bytes = [](const Problem&) { return std::size_t{0}; };
    facts->workspace_bytes = [](const Problem&) { return std::size_t{256} / kNumber; };
    facts->rank = [](const Problem&) { return Rank{10 * kNumber, "its number"}; };
  }
  // A forward call has no gradients that could be null.
  stage.forward.features.bits |= static_cast<unsigned>(Feature::kNullGradients);
  stage.forward.run = [](const Problem&, const Forward&, const Device&, cudaStream_t) {
    ran = stage_name;
    return FlashAttentionError::SUCCESS;
  };
  stage.backward.run = [](const Problem&, const Backward&, const Device&, cudaStream_t) {
    ran = stage_name;
    return FlashAttentionError::SUCCESS;
  };
  return stage;
}
constexpr std::int64_t kHuge = std::int64_t{1} << 40;  // elements

const Stage kTakesAll = describe<1>("01_takes_all", kDenseFeatures);
const Stage kFaster = describe<2>(
    "02_faster", kDenseFeatures.without(Feature::kAnyStride).without(Feature::kNullGradients));

class Choice : public ::testing::Test {
 protected:
  void SetUp() override {
    need_device();
    unsetenv("CUFLASH_STAGE");
  }

  // The stages only note that they ran: nobody reads the tensors.
  template <class Args>
  Args args() {
    const Tensor t = contiguous(memory_, 2, 8, 64);
    if constexpr (std::is_same_v<Args, Forward>) {
      return {t, t, t, t};
    } else {
      return {t, t, t, t, t, t, t, t, reinterpret_cast<float*>(memory_)};
    }
  }

  Problem problem_{2, 2, 2, 8, 8, 64, CUFLASH_F16, false, 0.125f};
  alignas(256) char memory_[256];
};

TEST_F(Choice, FollowsTheStrides) {
  Forward in_order = args<Forward>(), far_apart = in_order;
  far_apart.k.head_stride = far_apart.v.head_stride = kHuge;
  EXPECT_EQ(forward(problem_, in_order), FlashAttentionError::SUCCESS);
  EXPECT_STREQ(ran, "02_faster");
  EXPECT_EQ(forward(problem_, far_apart), FlashAttentionError::SUCCESS);
  EXPECT_STREQ(ran, "01_takes_all");

  Backward gradients = args<Backward>();
  EXPECT_EQ(backward(problem_, gradients), FlashAttentionError::SUCCESS);
  EXPECT_STREQ(ran, "02_faster");
  gradients.d_o.batch_stride = kHuge;
  EXPECT_EQ(backward(problem_, gradients), FlashAttentionError::SUCCESS);
  EXPECT_STREQ(ran, "01_takes_all");
}

TEST_F(Choice, FollowsNullGradients) {
  Backward gradients = args<Backward>();
  gradients.dk = {};
  EXPECT_EQ(backward(problem_, gradients), FlashAttentionError::SUCCESS);
  EXPECT_STREQ(ran, "01_takes_all");
}

TEST_F(Choice, ByNameIsRefusedWithTheReason) {
  Forward far_apart = args<Forward>();
  far_apart.k.head_stride = kHuge;
  ran = "none";
  EXPECT_EQ(forward(problem_, far_apart, nullptr, "02_faster"),
            FlashAttentionError::UNSUPPORTED_BY_STAGE);
  EXPECT_STREQ(last_error_message(),
               "02_faster's forward pass does not support a stride of 2^40 bytes or more");
  EXPECT_STREQ(ran, "none");
  EXPECT_EQ(forward(problem_, far_apart, nullptr, "01_takes_all"), FlashAttentionError::SUCCESS);
}

// The question knows no strides: its answer is for usual ones. A call that needs more says so.
TEST_F(Choice, WorkspaceBytesAreForUsualStrides) {
  EXPECT_EQ(workspace_bytes(CUFLASH_FORWARD, problem_), 128u);
  EXPECT_EQ(workspace_bytes(CUFLASH_FORWARD, problem_, "01_takes_all"), 256u);

  Forward call = args<Forward>();
  call.workspace = memory_;
  call.workspace_bytes = 128;
  EXPECT_EQ(forward(problem_, call), FlashAttentionError::SUCCESS);
  call.k.batch_stride = kHuge;
  EXPECT_EQ(forward(problem_, call), FlashAttentionError::OUT_OF_MEMORY);
  EXPECT_STREQ(last_error_message(),
               "01_takes_all needs a workspace of 256 bytes; the caller's has 128");
}

// The answer is large enough for each set of gradients.
TEST_F(Choice, WorkspaceBytesAreForNullGradientsToo) {
  EXPECT_EQ(workspace_bytes(CUFLASH_BACKWARD, problem_), 256u);
  EXPECT_EQ(workspace_bytes(CUFLASH_BACKWARD, problem_, "02_faster"), 128u);
}

}  // namespace

const std::vector<const Stage*>& stages() {
  static const std::vector<const Stage*> list = {&kTakesAll, &kFaster};
  return list;
}

}  // namespace cuflash
