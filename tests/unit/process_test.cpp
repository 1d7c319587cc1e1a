// Calls in unusual states of a process: without host memory, and at exit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "api/dispatch.h"
#include "cuflash/c_api.h"
#include "cuflash/workload.h"
#include "device/host/tensor_map_arguments.h"

namespace {

thread_local bool no_memory = false;

// Makes allocations of this thread fail for as long as it lives.
struct NoMemory {
  NoMemory() { no_memory = true; }
  ~NoMemory() { no_memory = false; }
};

}  // namespace

void* operator new(std::size_t bytes) {
  void* memory = no_memory ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

constexpr cuflash_problem kProblem = {
    sizeof kProblem, 1, 1, 1, 1, 1, 64, CUFLASH_F16, 0, 1.f, -1, -1, 0, 0, 0, 0, 0};

// Memory is needed only for the refusal's sentence.
TEST(NoHostMemory, IsAnError) {
  const cuflash_forward_args args = {};
  int codes[3];
  const char* sentence;
  {
    const NoMemory while_it_lives;
    codes[0] = cuflash_forward(&kProblem, &args, nullptr, nullptr);
    codes[1] = cuflash_attention_forward_f32(nullptr, nullptr, nullptr, nullptr, nullptr, 1, 1, 1,
                                             -64, 1.f, false, nullptr);
    codes[2] = cuflash_check_support(CUFLASH_FORWARD, &kProblem, "a name that no stage has");
    sentence = cuflash_last_error_message();
  }
  for (const int code : codes) EXPECT_EQ(code, CUFLASH_OUT_OF_MEMORY);
  EXPECT_STREQ(sentence, "no host memory");
  EXPECT_EQ(cuflash_forward(&kProblem, &args, nullptr, nullptr), CUFLASH_INVALID_DIMENSION);
}

// Nothing is allocated before the stage is called.
TEST(NoHostMemory, SufficesToCheckAndChoose) {
  alignas(16) std::byte data[16];
  const float lse = 0.f;
  const cuflash::Tensor x = {data, 1 << 20, 128, 4 * 128};
  const cuflash::Forward forward(x, x, x, x);
  const cuflash::Backward backward(x, x, x, x, x, x, x, x, &lse);
  for (const cuflash::DType dtype : cuflash::kDTypes) {
    cuflash::Problem problem;
    ASSERT_TRUE(cuflash::parse_problem("b2_h4x2_q40k70_d128_causal", problem));
    problem.dtype = dtype;
    for (const cuflash::Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
      for (const char* stage : {static_cast<const char*>(nullptr), "01_naive"}) {
        (void)cuflash::api::choose(pass, problem, stage);  // The device is queried once.
        const NoMemory while_it_lives;
        EXPECT_TRUE(cuflash::api::choose(pass, problem, stage).support);
        EXPECT_TRUE(validate(problem, forward));
        EXPECT_TRUE(validate(problem, backward));
      }
    }
  }
}

// A stage makes its tensor maps in each call.
TEST(NoHostMemory, SufficesToCheckATensorMap) {
  alignas(16) static std::byte data[16];
  const cuflash::TensorMapArguments map = {data,          CUFLASH_F16,
                                           {64, 9, 2, 1}, {64, 1024, 0},
                                           {64, 8, 1, 1}, cuflash::TensorSwizzle::k128Bytes};
  const NoMemory while_it_lives;
  EXPECT_EQ(cuflash::tensor_map_fault(map), "");
}

// ---- Calls from destructors that run at exit ----------------------------------------------------

struct CallsAtExit {
  ~CallsAtExit() {
    const char* chosen = cuflash_chosen_stage(CUFLASH_FORWARD, &kProblem, "01");
    const bool right = cuflash_num_stages() > 0 && cuflash_stage_name(0)[0] == '0' &&
                       (chosen == nullptr || chosen[0] == '0');
    std::_Exit(right ? 0 : 1);
  }
};

TEST(AtExit, TheLibraryStillAnswers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process: CUDA does not survive a fork
  EXPECT_EXIT(
      {
        static const CallsAtExit at_exit;  // destroyed after all that the call below makes
        cuflash_chosen_stage(CUFLASH_FORWARD, &kProblem, nullptr);
        std::exit(3);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
