// supports(), find_stage() and choose_stage(): which stage can run what, and the sentence that says
// why not. Devices are values, so no GPU is needed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "cuflash/workload.h"

namespace cuflash {
namespace {

using Error = FlashAttentionError;

std::size_t no_workspace(const Problem&) { return 0; }
std::size_t shared_96_kb(const Problem&) { return 96 << 10; }
std::size_t no_shared_memory(const Problem&) { return 0; }
Error queue_forward(const Problem&, const Forward&, const Device&, cudaStream_t) {
  return Error::SUCCESS;
}
Error queue_backward(const Problem&, const Backward&, const Device&, cudaStream_t) {
  return Error::SUCCESS;
}

constexpr unsigned bit(DType dtype) { return 1u << static_cast<int>(dtype); }
constexpr unsigned bit(int head_dim) { return 1u << (head_dim / 16 - 1); }

// A stage like the later ones: f16 and bf16, Ampere or newer, 96 KB of shared memory.
Stage stage() {
  Stage s;
  s.name = "08_swizzle";
  for (PassFacts* facts :
       {static_cast<PassFacts*>(&s.forward), static_cast<PassFacts*>(&s.backward)}) {
    facts->arch = {80, false};
    facts->dtypes = {bit(CUFLASH_F16) | bit(CUFLASH_BF16)};
    facts->head_dims = {bit(32) | bit(64) | bit(128)};
    facts->features = kDenseFeatures;
    facts->shared_bytes = shared_96_kb;
    facts->workspace_bytes = no_workspace;
  }
  s.forward.run = queue_forward;
  s.backward.run = queue_backward;
  return s;
}

const Device kT4{"T4", 75, 65536};
const Device kA100{"A100", 80, 166912};
const Device kH200{"H200", 90, 232448};
const Device kNone = [] {
  Device none;
  none.fault = "the driver is too old";
  return none;
}();

void expect(const Support& support, Error error, const std::string& reason) {
  EXPECT_EQ(static_cast<int>(support.error), static_cast<int>(error));
  EXPECT_EQ(support.reason, reason);
  EXPECT_EQ(static_cast<bool>(support), error == Error::SUCCESS);
}

TEST(Supports, SaysYesWithoutASentence) {
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    expect(supports(stage(), pass, {}, kA100), Error::SUCCESS, "");
    expect(supports(stage(), pass, {}, kH200), Error::SUCCESS, "");
  }
}

TEST(Supports, NeedsADevice) {
  expect(supports(stage(), CUFLASH_FORWARD, {}, kNone), Error::UNSUPPORTED_DEVICE,
         "there is no CUDA device: the driver is too old");
}

// A library may be built for some architectures only.
TEST(Supports, NeedsCodeThatRunsOnTheDevice) {
  Device device = kA100;
  device.newest_code = 0;  // only for 90, say
  expect(supports(stage(), CUFLASH_FORWARD, {}, device), Error::UNSUPPORTED_DEVICE,
         "this library was built for newer devices; this one has compute capability 8.0");
  device.newest_code = 75;
  expect(supports(stage(), CUFLASH_FORWARD, {}, device), Error::UNSUPPORTED_DEVICE,
         "08_swizzle needs compute capability 8.0 or higher; this library was built for 7.5");
  device.newest_code = 80;
  expect(supports(stage(), CUFLASH_FORWARD, {}, device), Error::SUCCESS, "");

  Stage wmma = stage();
  wmma.forward.arch = {75, false, 80};
  Problem bf16;
  bf16.dtype = CUFLASH_BF16;
  device.newest_code = 75;
  expect(supports(wmma, CUFLASH_FORWARD, bf16, device), Error::UNSUPPORTED_DEVICE,
         "08_swizzle needs compute capability 8.0 or higher for bf16; this library was built for "
         "7.5");
  expect(supports(wmma, CUFLASH_FORWARD, {}, device), Error::SUCCESS, "");

  Stage hopper = stage();
  hopper.forward.arch = {90, true};
  device = kH200;
  device.newest_code = 75;
  expect(supports(hopper, CUFLASH_FORWARD, {}, device), Error::SUCCESS, "");
  device.newest_code = 90;
  device.exact_code = false;
  expect(supports(hopper, CUFLASH_FORWARD, {}, device), Error::UNSUPPORTED_DEVICE,
         "08_swizzle needs sm_90a (compute capability 9.0 exactly); this library was built without "
         "code for sm_90a");
  expect(supports(stage(), CUFLASH_FORWARD, {}, device), Error::SUCCESS, "");
}

TEST(Supports, NeedsTheArchitecture) {
  expect(supports(stage(), CUFLASH_FORWARD, {}, kT4), Error::UNSUPPORTED_DEVICE,
         "08_swizzle needs compute capability 8.0 or higher; this device has 7.5");
}

TEST(Supports, TakesAnExactArchitectureAsAnEquality) {
  Stage hopper = stage();
  hopper.name = "13_ping_pong";
  hopper.forward.arch = {90, true};
  expect(supports(hopper, CUFLASH_FORWARD, {}, kH200), Error::SUCCESS, "");
  expect(supports(hopper, CUFLASH_FORWARD, {}, kA100), Error::UNSUPPORTED_DEVICE,
         "13_ping_pong needs sm_90a (compute capability 9.0 exactly); this device has 8.0");
  expect(supports(hopper, CUFLASH_FORWARD, {}, {"B200", 100, 232448}), Error::UNSUPPORTED_DEVICE,
         "13_ping_pong needs sm_90a (compute capability 9.0 exactly); this device has 10.0");
}

TEST(Supports, NeedsTheArchitectureOfBf16) {
  Stage wmma = stage();
  wmma.name = "05_wmma";
  wmma.forward.arch = {75, false, 80};
  wmma.forward.shared_bytes = no_shared_memory;
  Problem p;
  p.dtype = CUFLASH_BF16;
  expect(supports(wmma, CUFLASH_FORWARD, p, kT4), Error::UNSUPPORTED_DEVICE,
         "05_wmma needs compute capability 8.0 or higher for bf16; this device has 7.5");
  expect(supports(wmma, CUFLASH_FORWARD, p, kA100), Error::SUCCESS, "");
  p.dtype = CUFLASH_F16;
  expect(supports(wmma, CUFLASH_FORWARD, p, kT4), Error::SUCCESS, "");
}

// The device is checked before the stage, in the documented order.
TEST(Supports, NamesTheDeviceBeforeWhatTheStageLacks) {
  Problem p;
  p.dtype = CUFLASH_BF16;
  p.head_dim = 96;
  const Stage& wmma = *find_stage("05_wmma");
  EXPECT_EQ(supports(wmma, CUFLASH_FORWARD, p, kT4).error, Error::UNSUPPORTED_DEVICE);
  EXPECT_EQ(supports(wmma, CUFLASH_FORWARD, p, kA100).error, Error::UNSUPPORTED_BY_STAGE);
}

TEST(Supports, NeedsTheSharedMemory) {
  const Device small{"small", 86, 65536};
  expect(supports(stage(), CUFLASH_FORWARD, {}, small), Error::UNSUPPORTED_DEVICE,
         "08_swizzle needs 98304 bytes of shared memory per block; this device has 65536");
  expect(supports(stage(), CUFLASH_FORWARD, {}, {"just enough", 86, 98304}), Error::SUCCESS, "");
}

TEST(Supports, NeedsThePass) {
  Stage s = stage();
  s.backward.run = nullptr;
  expect(supports(s, CUFLASH_FORWARD, {}, kA100), Error::SUCCESS, "");
  expect(supports(s, CUFLASH_BACKWARD, {}, kA100), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle has no backward pass");
  s.forward.run = nullptr;
  expect(supports(s, CUFLASH_FORWARD, {}, kA100), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle has no forward pass");
}

TEST(Supports, NeedsTheDType) {
  Problem p;
  p.dtype = CUFLASH_F32;
  expect(supports(stage(), CUFLASH_FORWARD, p, kA100), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle does not support f32; it supports f16 and bf16");
}

TEST(Supports, NeedsTheHeadDim) {
  Problem p;
  p.head_dim = 96;
  expect(supports(stage(), CUFLASH_FORWARD, p, kA100), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle does not support head_dim 96; it supports 32, 64 and 128");
}

// A call's features are compared with the pass's, and the sentence names the missing one.
TEST(Supports, NamesTheFeatureThatIsMissing) {
  struct Row {
    Feature feature;
    const char* problem;
    const char* lacks;
  };
  const Row rows[] = {
      {Feature::kCausal, "b1_h1_q8k8_d64_f16_causal", "a causal mask"},
      {Feature::kWindow, "b1_h1_q8k8_d64_f16", "a window"},
      {Feature::kGroupedHeads, "b1_h4x2_q8k8_d64_f16", "fewer KV heads than query heads"},
      {Feature::kCrossLengths, "b1_h1_q8k9_d64_f16", "a seq_q that differs from seq_kv"},
  };
  for (const Row& row : rows) {
    Problem p;
    ASSERT_TRUE(parse_problem(row.problem, p));
    if (row.feature == Feature::kWindow) p.window_left = 3;
    EXPECT_EQ(features_of(p).bits, static_cast<unsigned>(row.feature));
    Stage s = stage();
    expect(supports(s, CUFLASH_FORWARD, p, kA100), Error::SUCCESS, "");
    s.forward.features = kDenseFeatures.without(row.feature);
    expect(supports(s, CUFLASH_FORWARD, p, kA100), Error::UNSUPPORTED_BY_STAGE,
           std::string("08_swizzle's forward pass does not support ") + row.lacks);
    expect(supports(s, CUFLASH_BACKWARD, p, kA100), Error::SUCCESS, "");
  }
}

// What a call with a cache needs. No stage without a cache has it.
TEST(Supports, NamesWhatACacheNeeds) {
  const std::int32_t numbers[1] = {};
  Forward lengths, padding, choice;
  lengths.seqused_k = padding.k_begin = choice.kv_batch = numbers;
  Problem by_keys, by_number;
  by_keys.split_keys = 64, by_number.num_splits = 2;
  const struct {
    Features needs;
    Feature feature;
    const char* lacks;
  } rows[] = {
      {features_of({}, lengths), Feature::kLengths, "seqused_k or k_begin"},
      {features_of({}, padding), Feature::kLengths, "seqused_k or k_begin"},
      {features_of({}, choice), Feature::kKvBatch, "kv_batch"},
      {features_of(by_keys), Feature::kSplits, "split_keys or num_splits"},
      {features_of(by_number), Feature::kSplits, "split_keys or num_splits"},
      {features_of(in_pages({}, 16)), Feature::kPages, "pages"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(row.needs.bits, static_cast<unsigned>(row.feature));
    Stage s = stage();
    expect(supports(s, CUFLASH_FORWARD, {}, kA100, row.needs), Error::UNSUPPORTED_BY_STAGE,
           std::string("08_swizzle's forward pass does not support ") + row.lacks);
    s.forward.features = kEveryFeature;
    expect(supports(s, CUFLASH_FORWARD, {}, kA100, row.needs), Error::SUCCESS, "");
    for (const Stage* one : stages()) EXPECT_FALSE(one->backward.features.has(row.feature));
    EXPECT_FALSE(find_stage("09")->forward.features.has(row.feature));
  }
}

TEST(Supports, AWindowOnEitherSideIsAFeature) {
  Problem p;
  EXPECT_EQ(features_of(p).bits, 0u);
  p.window_right = 0;
  EXPECT_TRUE(features_of(p).has(Feature::kWindow));
  p.window_right = -1, p.window_left = 0;
  EXPECT_TRUE(features_of(p).has(Feature::kWindow));
}

TEST(Supports, NamesWhatTheCallAsksForBesideItsProblem) {
  Stage s = stage();
  s.backward.features = kDenseFeatures.without(Feature::kDeterministic);
  const Features asked = {static_cast<unsigned>(Feature::kDeterministic)};
  expect(supports(s, CUFLASH_BACKWARD, {}, kA100), Error::SUCCESS, "");
  expect(supports(s, CUFLASH_FORWARD, {}, kA100, asked), Error::SUCCESS, "");
  expect(supports(s, CUFLASH_BACKWARD, {}, kA100, asked), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle's backward pass does not support a deterministic call");
}

TEST(Supports, NamesTheStridesThatTheStageDoesNotTake) {
  Stage s = stage();
  s.forward.features = kDenseFeatures.without(Feature::kAnyStride);
  const Features asked = {static_cast<unsigned>(Feature::kAnyStride)};
  expect(supports(s, CUFLASH_FORWARD, {}, kA100), Error::SUCCESS, "");
  expect(supports(s, CUFLASH_BACKWARD, {}, kA100, asked), Error::SUCCESS, "");
  expect(supports(s, CUFLASH_FORWARD, {}, kA100, asked), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle's forward pass does not support a stride of 2^40 bytes or more");
}

TEST(Supports, NamesTheNullGradientsThatTheStageDoesNotTake) {
  Stage s = stage();
  s.backward.features = kDenseFeatures.without(Feature::kNullGradients);
  const Features asked = {static_cast<unsigned>(Feature::kNullGradients)};
  expect(supports(s, CUFLASH_BACKWARD, {}, kA100), Error::SUCCESS, "");
  expect(supports(s, CUFLASH_BACKWARD, {}, kA100, asked), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle's backward pass does not support a null dq, dk or dv");
}

// With every reason present, the first is given; once it is removed, the next.
TEST(Supports, ChecksInOrder) {
  Stage s = stage();
  s.backward.run = nullptr;
  Problem p;
  p.dtype = CUFLASH_F32;
  p.head_dim = 96;
  Device device = kNone;
  const auto reason = [&] { return supports(s, CUFLASH_BACKWARD, p, device).reason; };
  EXPECT_NE(reason().find("no CUDA device"), std::string::npos);
  device = kT4;
  device.newest_code = 0;
  EXPECT_NE(reason().find("was built for"), std::string::npos);
  device.newest_code = 75;
  EXPECT_NE(reason().find("compute capability"), std::string::npos);
  device.compute_capability = device.newest_code = 80;
  EXPECT_NE(reason().find("shared memory"), std::string::npos);
  device = kA100;
  EXPECT_NE(reason().find("backward pass"), std::string::npos);
  s.backward.run = queue_backward;
  EXPECT_NE(reason().find("f32"), std::string::npos);
  p.dtype = CUFLASH_F16;
  EXPECT_NE(reason().find("head_dim"), std::string::npos);
  p.head_dim = 64;
  EXPECT_EQ(reason(), "");
}

// From 03 on no stage keeps a matrix of scores; a local stage of this checkout may.
TEST(Stages, KeepNoScoresFromTheThirdOn) {
  for (const Stage* stage : stages()) {
    const std::string number = std::string(stage->name).substr(0, 2);
    if (number >= "90") continue;
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      if (stage->has(pass)) {
        EXPECT_EQ(stage->facts(pass).keeps_scores, number < "03") << number;
      }
    }
  }
}

// The tensor cores of these stages take no f32, and their f32 units take everything. Products of
// warpgroups are the reason to ask for sm_90a.
TEST(Stages, ComputeOnTensorCoresWhereTheyTakeNoF32) {
  for (const Stage* stage : stages()) {
    if (std::string(stage->name) >= "90") continue;
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      if (!stage->has(pass)) continue;
      const PassFacts& facts = stage->facts(pass);
      EXPECT_EQ(facts.products_by == ProductsBy::kMultiplyAdds, facts.dtypes.has(CUFLASH_F32))
          << stage->name;
      EXPECT_EQ(facts.products_by == ProductsBy::kWgmma, facts.arch.exact) << stage->name;
    }
  }
}

TEST(FindStage, KnowsFullNamesNumbersAndWords) {
  for (const Stage* s : stages()) {
    const std::string name = s->name;
    EXPECT_EQ(find_stage(name), s);
    EXPECT_EQ(find_stage(name.substr(name.find('_') + 1)), s);
  }
  ASSERT_FALSE(stages().empty());
  EXPECT_STREQ(stages().front()->name, "01_naive");
  EXPECT_EQ(find_stage("01"), stages().front());
  EXPECT_EQ(find_stage("naive"), stages().front());
}

TEST(FindStage, KnowsNothingElse) {
  for (const char* name : {"", "_", "0", "1", "01_", "_naive", "01_naiv", "01_naive ", "NAIVE",
                           "nai", "99", "no_such_stage"}) {
    EXPECT_EQ(find_stage(name), nullptr) << '"' << name << '"';
  }
}

// head_dim 96 and 256 need f16 or bf16, and a device for 09.
TEST(ChooseStage, FindsOneForEachDTypeAndHeadDimThatTheDeviceRuns) {
  for (const Device& device : {kT4, kA100, kH200}) {
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      for (const DType dtype : kDTypes) {
        for (const int head_dim : {32, 64, 96, 128, 256}) {
          Problem p;
          p.dtype = dtype;
          p.head_dim = head_dim;
          SCOPED_TRACE(device.name + ' ' + problem_name(p) + ", " + pass_name(pass));
          const bool usual = head_dim != 96 && head_dim != 256;
          const bool with_09 = dtype == CUFLASH_F16 || dtype == CUFLASH_BF16;
          const Stage* chosen = choose_stage(pass, p, device);
          ASSERT_EQ(chosen != nullptr, usual || (with_09 && device.compute_capability >= 80));
          if (chosen != nullptr) {
            EXPECT_TRUE(supports(*chosen, pass, p, device));
          }
        }
      }
    }
  }
}

// A problem's head_dim is valid only if some stage takes it, and stages take no other.
TEST(Stages, TakeTheHeadDimsThatAreValid) {
  HeadDims valid;
  for (const int head_dim : kHeadDims) valid.bits |= bit(head_dim);
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    HeadDims taken;
    for (const Stage* stage : stages()) taken.bits |= stage->facts(pass).head_dims.bits;
    EXPECT_EQ(taken.bits, valid.bits) << pass_name(pass);
  }
}

// The choice follows the ranks that the passes state; a stage without a rank is never chosen.
TEST(ChooseStage, TakesTheHighestRank) {
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    for (const DType dtype : kDTypes) {
      Problem p;
      p.dtype = dtype;
      const Stage& chosen = *choose_stage(pass, p, kH200);
      ASSERT_NE(chosen.facts(pass).rank, nullptr);
      const Rank highest = chosen.facts(pass).rank(p);
      EXPECT_GT(highest.value, 0);
      EXPECT_STRNE(highest.reason, "");
      for (const Stage* other : stages()) {
        if (other->facts(pass).rank == nullptr || !supports(*other, pass, p, kH200)) continue;
        EXPECT_LE(other->facts(pass).rank(p).value, highest.value) << other->name;
      }
    }
  }
}

TEST(ChooseStage, DividesTheKeysWhereFewQueriesSeeMany) {
  const struct {
    int heads_q, heads_kv, seq_q, seq_kv;
    bool divides;
  } kRows[] = {
      {32, 8, 1, 4096, true},  {32, 8, 4, 4096, true},     {32, 8, 5, 4096, false},
      {32, 8, 1, 1024, false}, {512, 512, 1, 4096, false}, {512, 128, 1, 4096, true},
  };
  for (const auto& row : kRows) {
    Problem p;
    p.dtype = CUFLASH_F16;
    p.heads_q = row.heads_q, p.heads_kv = row.heads_kv;
    p.seq_q = row.seq_q, p.seq_kv = row.seq_kv;
    for (const Device& device : {kA100, kH200}) {
      const std::string chosen = choose_stage(CUFLASH_FORWARD, p, device)->name;
      EXPECT_EQ(chosen == "20_split_kv", row.divides)
          << chosen << " for " << row.heads_q << " heads, " << row.seq_q << " queries, "
          << row.seq_kv << " keys on " << device.name;
    }
  }
}

// The choices by name: a new stage that is faster changes this table.
TEST(ChooseStage, TakesTheFastestThatTheDeviceRuns) {
  const struct {
    Device device;
    DType dtype;
    const char* names[2];  // forward, backward
  } kRows[] = {
      {kH200, CUFLASH_F32, {"04_register_tiles", "04_register_tiles"}},
      {kH200, CUFLASH_F16, {"14_persistent", "18_dq_on_the_way"}},
      {kH200, CUFLASH_BF16, {"14_persistent", "18_dq_on_the_way"}},
      {kA100, CUFLASH_F32, {"04_register_tiles", "04_register_tiles"}},
      {kA100, CUFLASH_F16, {"09_async_copy", "09_async_copy"}},
      {kA100, CUFLASH_BF16, {"09_async_copy", "09_async_copy"}},
      {kT4, CUFLASH_F32, {"04_register_tiles", "04_register_tiles"}},
      {kT4, CUFLASH_F16, {"06_forward_backward", "06_forward_backward"}},
      {kT4, CUFLASH_BF16, {"04_register_tiles", "04_register_tiles"}},
  };
  for (const auto& [device, dtype, names] : kRows) {
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      Problem p;
      p.dtype = dtype;
      SCOPED_TRACE(device.name + ", " + dtype_name(dtype) + ", " + pass_name(pass));
      const Stage* chosen = choose_stage(pass, p, device);
      ASSERT_NE(chosen, nullptr);
      EXPECT_STREQ(chosen->name, names[pass == CUFLASH_BACKWARD ? 1 : 0]);
    }
  }
}

TEST(ChooseStage, TakesTheFastestWithAFixedOrderForTheSameBits) {
  const Features asked = {static_cast<unsigned>(Feature::kDeterministic)};
  EXPECT_STREQ(choose_stage(CUFLASH_BACKWARD, {}, kH200, asked)->name, "17_persistent_backward");
}

// 99 KB of shared memory hold each block of 09's forward pass. Of its backward pass they hold those
// up to head_dim 96.
TEST(ChooseStage, TakesTheNextWhereABlockIsTooSmall) {
  const Device rtx4090 = {"RTX 4090", 89, 101376};
  const struct {
    Pass pass;
    int head_dim;
    const char* name;
  } kRows[] = {
      {CUFLASH_FORWARD, 32, "09_async_copy"},         {CUFLASH_FORWARD, 64, "09_async_copy"},
      {CUFLASH_FORWARD, 96, "09_async_copy"},         {CUFLASH_FORWARD, 128, "09_async_copy"},
      {CUFLASH_FORWARD, 256, "09_async_copy"},        {CUFLASH_BACKWARD, 32, "09_async_copy"},
      {CUFLASH_BACKWARD, 64, "09_async_copy"},        {CUFLASH_BACKWARD, 96, "09_async_copy"},
      {CUFLASH_BACKWARD, 128, "06_forward_backward"},
  };
  for (const auto& [pass, head_dim, name] : kRows) {
    for (const DType dtype : {CUFLASH_F16, CUFLASH_BF16}) {
      Problem p;
      p.dtype = dtype;
      p.head_dim = head_dim;
      SCOPED_TRACE(problem_name(p) + ", " + pass_name(pass));
      const Stage* chosen = choose_stage(pass, p, rtx4090);
      ASSERT_NE(chosen, nullptr);
      EXPECT_STREQ(chosen->name, name);
      EXPECT_STREQ(choose_stage(pass, p, kA100)->name, "09_async_copy");
    }
  }
  Problem widest;
  widest.head_dim = 256;
  EXPECT_EQ(choose_stage(CUFLASH_BACKWARD, widest, rtx4090), nullptr);
  const std::size_t needed = find_stage("09")->backward.shared_bytes(widest);
  expect(why_none(CUFLASH_BACKWARD, widest, rtx4090), Error::UNSUPPORTED_DEVICE,
         "no stage's backward pass supports f16 with head_dim 256 on this device: 09_async_copy "
         "needs " +
             std::to_string(needed) + " bytes of shared memory per block; this device has 101376");
}

TEST(ChooseStage, FindsNoneWhereNoneCan) {
  EXPECT_EQ(choose_stage(CUFLASH_FORWARD, {}, {}), nullptr);
  EXPECT_EQ(choose_stage(CUFLASH_FORWARD, {}, {"Kepler", 35, 49152}), nullptr);
}

// The sentence says what would do: another head_dim, another dtype or another device.
TEST(ChooseStage, SaysWhyThereIsNone) {
  Problem p;
  p.head_dim = 96;
  expect(why_none(CUFLASH_FORWARD, p, kNone), Error::UNSUPPORTED_DEVICE,
         "there is no CUDA device: the driver is too old");
  expect(
      why_none(CUFLASH_FORWARD, p, kT4), Error::UNSUPPORTED_DEVICE,
      "no stage's forward pass supports f16 with head_dim 96 on this device: 09_async_copy needs "
      "compute capability 8.0 or higher; this device has 7.5");
  p.dtype = CUFLASH_F32;
  for (const Device& device : {kT4, kA100, kH200}) {
    expect(why_none(CUFLASH_FORWARD, p, device), Error::UNSUPPORTED_BY_STAGE,
           "no stage's forward pass supports f32 with head_dim 96; f32 is supported with head_dim "
           "32, 64 or 128; head_dim 96 is supported with f16 or bf16");
  }
  p.head_dim = 256;
  expect(why_none(CUFLASH_BACKWARD, p, kH200), Error::UNSUPPORTED_BY_STAGE,
         "no stage's backward pass supports f32 with head_dim 256; f32 is supported with head_dim "
         "32, 64 or 128; head_dim 256 is supported with f16 or bf16");
}

// A cache needs a feature that few stages have: the sentence names it, and what would do with it.
TEST(ChooseStage, SaysWhyThereIsNoneForACache) {
  const Features asked = {static_cast<unsigned>(Feature::kLengths)};
  Problem p;
  EXPECT_STREQ(choose_stage(CUFLASH_FORWARD, p, kA100, asked)->name, "20_split_kv");
  p.dtype = CUFLASH_F32;
  expect(why_none(CUFLASH_FORWARD, p, kA100, asked), Error::UNSUPPORTED_BY_STAGE,
         "no stage's forward pass supports f32 with head_dim 64 and seqused_k or k_begin; head_dim "
         "64 is supported with f16 or bf16");
  p.num_splits = 2;
  expect(why_none(CUFLASH_BACKWARD, p, kA100), Error::UNSUPPORTED_BY_STAGE,
         "no stage's backward pass supports split_keys or num_splits");
}

}  // namespace
}  // namespace cuflash
