// supports(), find_stage() and choose_stage(): who can run what, and the sentence that says why
// not. Devices are values, so no GPU is needed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuflash/stage.h"
#include "cuflash/workload.h"

namespace cuflash {
namespace {

using Error = FlashAttentionError;

Tile no_tile(Pass, const Problem&) { return {}; }
std::size_t no_workspace(Pass, const Problem&) { return 0; }
Error queue_forward(const Problem&, const Forward&, cudaStream_t) { return Error::SUCCESS; }
Error queue_backward(const Problem&, const Backward&, cudaStream_t) { return Error::SUCCESS; }

constexpr unsigned bit(DType dtype) { return 1u << static_cast<int>(dtype); }
constexpr unsigned bit(int head_dim) { return 1u << (head_dim / 16 - 1); }

// A stage as the later ones are: f16 and bf16, Ampere or newer, 96 KB of shared memory.
Stage stage() {
  return {"08_swizzle",
          "",
          "",
          "",
          {80, false},
          {bit(CUFLASH_F16) | bit(CUFLASH_BF16)},
          {bit(32) | bit(64) | bit(128)},
          96 << 10,
          true,
          no_tile,
          no_workspace,
          queue_forward,
          queue_backward};
}

const Device kT4{"T4", 75, 65536};
const Device kA100{"A100", 80, 166912};
const Device kH200{"H200", 90, 232448};
const Device kNone{"", 0, 0, 0, "the driver is too old"};

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
  wmma.arch = {75, false, 80};
  Problem bf16;
  bf16.dtype = CUFLASH_BF16;
  device.newest_code = 75;
  expect(supports(wmma, CUFLASH_FORWARD, bf16, device), Error::UNSUPPORTED_DEVICE,
         "08_swizzle needs compute capability 8.0 or higher for bf16; this library was built for "
         "7.5");
  expect(supports(wmma, CUFLASH_FORWARD, {}, device), Error::SUCCESS, "");

  Stage hopper = stage();  // its own code is there whatever else is
  hopper.arch = {90, true};
  device = kH200;
  device.newest_code = 75;
  expect(supports(hopper, CUFLASH_FORWARD, {}, device), Error::SUCCESS, "");
}

TEST(Supports, NeedsTheArchitecture) {
  expect(supports(stage(), CUFLASH_FORWARD, {}, kT4), Error::UNSUPPORTED_DEVICE,
         "08_swizzle needs compute capability 8.0 or higher; this device has 7.5");
}

TEST(Supports, TakesAnExactArchitectureAsAnEquality) {
  Stage hopper = stage();
  hopper.name = "13_ping_pong";
  hopper.arch = {90, true};
  expect(supports(hopper, CUFLASH_FORWARD, {}, kH200), Error::SUCCESS, "");
  expect(supports(hopper, CUFLASH_FORWARD, {}, kA100), Error::UNSUPPORTED_DEVICE,
         "13_ping_pong needs sm_90a (compute capability 9.0 exactly); this device has 8.0");
  expect(supports(hopper, CUFLASH_FORWARD, {}, {"B200", 100, 232448}), Error::UNSUPPORTED_DEVICE,
         "13_ping_pong needs sm_90a (compute capability 9.0 exactly); this device has 10.0");
}

TEST(Supports, NeedsTheArchitectureOfBf16) {
  Stage wmma = stage();
  wmma.name = "05_wmma";
  wmma.arch = {75, false, 80};
  wmma.shared_bytes = 0;
  Problem p;
  p.dtype = CUFLASH_BF16;
  expect(supports(wmma, CUFLASH_FORWARD, p, kT4), Error::UNSUPPORTED_DEVICE,
         "05_wmma needs compute capability 8.0 or higher for bf16; this device has 7.5");
  expect(supports(wmma, CUFLASH_FORWARD, p, kA100), Error::SUCCESS, "");
  p.dtype = CUFLASH_F16;
  expect(supports(wmma, CUFLASH_FORWARD, p, kT4), Error::SUCCESS, "");
}

// The device comes before the stage, in the documented order.
TEST(Supports, NamesTheDeviceBeforeWhatTheStageLacks) {
  Problem p;
  p.dtype = CUFLASH_BF16;
  EXPECT_EQ(supports(*find_stage("05_wmma"), CUFLASH_BACKWARD, p, kT4).error,
            FlashAttentionError::UNSUPPORTED_DEVICE);
}

TEST(Supports, NeedsTheSharedMemory) {
  const Device small{"small", 86, 65536};
  expect(supports(stage(), CUFLASH_FORWARD, {}, small), Error::UNSUPPORTED_DEVICE,
         "08_swizzle needs 98304 bytes of shared memory a block; this device has 65536");
  expect(supports(stage(), CUFLASH_FORWARD, {}, {"just enough", 86, 98304}), Error::SUCCESS, "");
}

TEST(Supports, NeedsThePass) {
  Stage s = stage();
  s.backward = nullptr;
  expect(supports(s, CUFLASH_FORWARD, {}, kA100), Error::SUCCESS, "");
  expect(supports(s, CUFLASH_BACKWARD, {}, kA100), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle has no backward pass");
  s.forward = nullptr;
  expect(supports(s, CUFLASH_FORWARD, {}, kA100), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle has no forward pass");
}

TEST(Supports, NeedsTheDType) {
  Problem p;
  p.dtype = CUFLASH_F32;
  expect(supports(stage(), CUFLASH_FORWARD, p, kA100), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle does not take f32; it takes f16 and bf16");
}

TEST(Supports, NeedsTheHeadDim) {
  Problem p;
  p.head_dim = 96;
  expect(supports(stage(), CUFLASH_FORWARD, p, kA100), Error::UNSUPPORTED_BY_STAGE,
         "08_swizzle does not take head_dim 96; it takes 32, 64 and 128");
}

// With every reason present, the first is given; as each is taken away, the next.
TEST(Supports, ChecksInOrder) {
  Stage s = stage();
  s.backward = nullptr;
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
  s.backward = queue_backward;
  EXPECT_NE(reason().find("f32"), std::string::npos);
  p.dtype = CUFLASH_F16;
  EXPECT_NE(reason().find("head_dim"), std::string::npos);
  p.head_dim = 64;
  EXPECT_EQ(reason(), "");
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

TEST(ChooseStage, FindsOneForEveryProblemOnEveryDevice) {
  for (const Device& device : {kT4, kA100, kH200}) {
    for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      for (const DType dtype : {CUFLASH_F32, CUFLASH_F16, CUFLASH_BF16}) {
        for (const int head_dim : {32, 64, 128}) {
          Problem p;
          p.dtype = dtype;
          p.head_dim = head_dim;
          const Stage* chosen = choose_stage(pass, p, device);
          ASSERT_NE(chosen, nullptr) << device.name << ' ' << problem_name(p);
          EXPECT_TRUE(supports(*chosen, pass, p, device));
        }
      }
    }
  }
}

TEST(ChooseStage, FindsNoneWhereNoneCan) {
  EXPECT_EQ(choose_stage(CUFLASH_FORWARD, {}, {}), nullptr);
  EXPECT_EQ(choose_stage(CUFLASH_FORWARD, {}, {"Kepler", 35, 49152}), nullptr);
}

}  // namespace
}  // namespace cuflash
