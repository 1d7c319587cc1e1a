// The parts of the C interface that the tests of the C++ API, which is inline over it, do not
// reach: calls from C, structs of another size, and questions.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "api/c_structs.h"
#include "c_api_in_c.h"
#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "support/api_example.h"

namespace cuflash {
namespace {

// A struct of a later version, which has eight bytes more.
template <class T>
struct Longer {
  T known;
  char more[8] = {};
  explicit Longer(const T& t) : known(t) { known.size = sizeof *this; }
};

class CApi : public Api {
 protected:
  // The call must return `code` and a sentence that holds `words`, and write nothing.
  void expect_refused(int code, int wanted, const std::string& words) const {
    EXPECT_EQ(code, wanted);
    EXPECT_NE(std::string(cuflash_last_error_message()).find(words), std::string::npos)
        << '"' << cuflash_last_error_message() << "\" lacks \"" << words << '"';
    EXPECT_TRUE(e->untouched());
  }
  int run(const cuflash_problem& p) const {
    return cuflash_forward(&p, &forward_args, nullptr, nullptr);
  }

  void SetUp() override {
    Api::SetUp();
    if (!has_device()) return;
    e.emplace();
    problem = e->problem;
    forward_args = e->forward_args();
    backward_args = e->backward_args();
  }

  std::optional<Example> e;
  cuflash_problem problem = {};
  cuflash_forward_args forward_args = {};
  cuflash_backward_args backward_args = {};
};

// ---- What calls compute ------------------------------------------------------------------------

TEST_F(CApi, AProgramInCComputesAttentionAndItsGradients) {
  for (const char* stage : {c_first_stage_with_backward(), static_cast<const char*>(nullptr)}) {
    const Example fresh;
    const c_tensors tensors = {fresh.q.data(),  fresh.k.data(),   fresh.v.data(),
                               fresh.o.data(),  fresh.lse.data(), fresh.d_o.data(),
                               fresh.dq.data(), fresh.dk.data(),  fresh.dv.data()};
    EXPECT_EQ(c_forward_and_backward(&tensors, stage), 0) << cuflash_last_error_message();
    EXPECT_STREQ(cuflash_last_error_message(), "");
    expect_near(fresh.o, fresh.output().o, 3e-6);
    expect_near(fresh.lse, fresh.output().lse, 3e-6);
    expect_near(fresh.dq, fresh.gradients().dq, 2e-5);
    expect_near(fresh.dk, fresh.gradients().dk, 2e-5);
    expect_near(fresh.dv, fresh.gradients().dv, 2e-5);
  }
}

TEST_F(CApi, TheCallersWorkspaceIsUsed) {
  const size_t bytes = cuflash_workspace_bytes(CUFLASH_FORWARD, &problem, "01_naive");
  const Array<float> workspace(poison(bytes / sizeof(float)));
  forward_args.workspace = workspace.data();
  forward_args.workspace_bytes = bytes - 1;
  expect_refused(cuflash_forward(&problem, &forward_args, "01_naive", nullptr),
                 CUFLASH_OUT_OF_MEMORY,
                 "01_naive needs a workspace of " + std::to_string(bytes) +
                     " bytes; the caller's has " + std::to_string(bytes - 1));
  EXPECT_TRUE(poisoned(workspace));
  forward_args.workspace_bytes = bytes;
  EXPECT_EQ(cuflash_forward(&problem, &forward_args, "01_naive", nullptr), 0);
  expect_near(e->o, e->output().o, 3e-6);
  EXPECT_FALSE(poisoned(workspace));
}

// ---- Structs of another size -------------------------------------------------------------------

TEST_F(CApi, ASmallerStructIsRefused) {
  problem.size = 36;
  const std::string words = "problem's size is 36; it must be at least 40 bytes";
  expect_refused(run(problem), CUFLASH_INVALID_DIMENSION, words);
  expect_refused(cuflash_check_support(CUFLASH_FORWARD, &problem, nullptr),
                 CUFLASH_INVALID_DIMENSION, words);
  EXPECT_EQ(cuflash_workspace_bytes(CUFLASH_FORWARD, &problem, "01_naive"), 0u);
  EXPECT_NE(std::string(cuflash_last_error_message()).find(words), std::string::npos);

  problem = e->problem;
  forward_args.size = 0;
  expect_refused(run(problem), CUFLASH_INVALID_DIMENSION, "args's size is 0; it must be at least");
  backward_args.size -= 8;
  expect_refused(cuflash_backward(&problem, &backward_args, nullptr, nullptr),
                 CUFLASH_INVALID_DIMENSION, "args's size is 280; it must be at least 288 bytes");
}

TEST_F(CApi, ALargerStructMayAskForNothingMore) {
  Longer<cuflash_problem> later_problem(problem);
  Longer<cuflash_forward_args> later_args(forward_args);
  later_args.more[7] = 1;
  expect_refused(cuflash_forward(&later_problem.known, &later_args.known, nullptr, nullptr),
                 CUFLASH_INVALID_DIMENSION,
                 "this library reads only 192 bytes, and the others are not all 0");
  later_args.more[7] = 0;
  EXPECT_EQ(cuflash_forward(&later_problem.known, &later_args.known, nullptr, nullptr), 0)
      << cuflash_last_error_message();
  expect_near(e->o, e->output().o, 3e-6);
}

TEST_F(CApi, AWildSizeIsRefused) {
  problem.size = std::numeric_limits<std::uint32_t>::max();
  expect_refused(run(problem), CUFLASH_INVALID_DIMENSION, "it must be at most 4096 bytes");
}

// A struct that had eight bytes in the first version and now has one more field.
struct Grown {
  std::uint32_t size;
  std::int32_t first;
  std::int64_t later;
};

}  // namespace

template <>
constexpr std::uint32_t api::kFirstSize<Grown> = 8;

namespace {

TEST(CApiStructs, WhatAnOlderStructLacksStaysAsItIsInANewOne) {
  const Grown old = {8, 3, 77};  // The caller's struct ends before 77.
  Grown known = {1, 1, -1};
  ASSERT_TRUE(api::read("grown", &old, known));
  EXPECT_EQ(known.first, 3);
  EXPECT_EQ(known.later, -1);

  const Grown present = {sizeof(Grown), 3, 77};
  ASSERT_TRUE(api::read("grown", &present, known));
  EXPECT_EQ(known.later, 77);

  const Grown too_small = {7, 3, 77};
  EXPECT_EQ(api::read("grown", &too_small, known).reason,
            "grown's size is 7; it must be at least 8 bytes");
  const Grown cut = {12, 3, 77};  // within a field
  EXPECT_EQ(api::read("grown", &cut, known).reason,
            "grown's size is 12; it must be a multiple of 8 bytes");
}

// The window came after the first version. A caller whose struct ends before it has none.
TEST_F(CApi, AnOlderProblemHasNoWindow) {
  problem.causal = 0;
  problem.window_left = problem.window_right = -2;  // beyond the caller's struct
  problem.size = 40;
  EXPECT_EQ(run(problem), 0) << cuflash_last_error_message();
  Problem none = e->problem;
  none.causal = 0;
  expect_near(e->o, reference::attention_forward(none, e->q64, e->k64, e->v64).o, 3e-6);
}

TEST_F(CApi, AProblemBetweenHasWhatItHasAFieldFor) {
  problem.window_left = problem.window_right = -2;
  problem.size = 44;
  expect_refused(run(problem), CUFLASH_INVALID_DIMENSION, "window_left is -2");
  problem.window_left = 3;
  EXPECT_EQ(cuflash_check_support(CUFLASH_FORWARD, &problem, nullptr), 0)
      << cuflash_last_error_message();
  problem.size = 48;
  expect_refused(run(problem), CUFLASH_INVALID_DIMENSION,
                 "window_right is -2; it must be at least 0, or -1 for no limit");
  problem.window_right = 0;
  EXPECT_EQ(cuflash_check_support(CUFLASH_BACKWARD, &problem, nullptr), 0)
      << cuflash_last_error_message();
}

// Parts of the keys and caches came after the window. A program of that time passes other sizes,
// and whatever lies behind its structs.
TEST_F(CApi, AProgramFromBeforeCachesStillRuns) {
  problem.split_keys = -1, problem.num_splits = -1;
  forward_args.seqused_k = forward_args.k_begin = forward_args.kv_batch =
      reinterpret_cast<const std::int32_t*>(2);
  expect_refused(run(problem), CUFLASH_INVALID_DIMENSION, "split_keys is -1");
  problem.size = 48;
  expect_refused(run(problem), CUFLASH_MISALIGNED, "seqused_k is at address");
  forward_args.size = 160;
  EXPECT_EQ(run(problem), 0) << cuflash_last_error_message();
  expect_near(e->o, e->output().o, 3e-6);
}

// Pages came last.
TEST_F(CApi, AProgramFromBeforePagesStillRuns) {
  problem.page_size = problem.num_pages = problem.pages_per_seq = -1;
  forward_args.block_table = reinterpret_cast<const std::int32_t*>(2);
  expect_refused(run(problem), CUFLASH_INVALID_DIMENSION, "page_size is -1");
  problem.size = 56;
  expect_refused(run(problem), CUFLASH_INVALID_DIMENSION, "block_table is given");
  forward_args.size = 184;
  EXPECT_EQ(run(problem), 0) << cuflash_last_error_message();
  expect_near(e->o, e->output().o, 3e-6);
}

TEST_F(CApi, AStructOfHalfAFieldIsRefused) {
  problem.size = 42;
  expect_refused(run(problem), CUFLASH_INVALID_DIMENSION,
                 "problem's size is 42; it must be a multiple of 4 bytes");
}

// ---- What calls refuse -------------------------------------------------------------------------

TEST_F(CApi, NullStructsAreRefused) {
  expect_refused(cuflash_forward(nullptr, &forward_args, nullptr, nullptr), CUFLASH_NULL_POINTER,
                 "problem is null");
  expect_refused(cuflash_backward(&problem, nullptr, nullptr, nullptr), CUFLASH_NULL_POINTER,
                 "args is null");
  expect_refused(cuflash_check_support(CUFLASH_FORWARD, nullptr, nullptr), CUFLASH_NULL_POINTER,
                 "problem is null");
}

TEST_F(CApi, RefusesWhatTheCppCallRefuses) {
  problem.dtype = cuflash_dtype(9);
  expect_refused(run(problem), CUFLASH_UNSUPPORTED_DTYPE, "dtype is 9");
  problem = e->problem;
  backward_args.lse = nullptr;
  expect_refused(cuflash_backward(&problem, &backward_args, nullptr, nullptr), CUFLASH_NULL_POINTER,
                 "LSE is null");
  expect_refused(cuflash_forward(&problem, &forward_args, "99_magic", nullptr),
                 CUFLASH_UNKNOWN_STAGE, "\"99_magic\"");
}

// 01_naive has a thread for each score: more than a grid can hold, which it reports before it
// launches anything.
TEST_F(CApi, WhatAStageRefusesIsReported) {
  const Problem p{1, 1, 1, 1 << 20, 1 << 20, 32, CUFLASH_F32, false, 1.f};
  Forward args;
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.o}) *t = contiguous(e->o.data(), 1, 1, 32);
  args.o.row_stride = args.q.row_stride = 32;
  args.workspace = e->q.data();  // nothing is read or written
  args.workspace_bytes = std::numeric_limits<std::size_t>::max();
  problem = p;
  forward_args = args;
  ASSERT_EQ(cuflash_check_support(CUFLASH_FORWARD, &problem, "01_naive"), 0);
  expect_refused(
      cuflash_forward(&problem, &forward_args, "01_naive", nullptr), CUFLASH_SIZE_OVERFLOW,
      std::string("01_naive, forward pass: ") + cuflash_error_string(CUFLASH_SIZE_OVERFLOW));
}

// ---- Stages ------------------------------------------------------------------------------------

TEST(CApiStages, AreTheListInItsOrder) {
  ASSERT_EQ(static_cast<std::size_t>(cuflash_num_stages()), stages().size());
  for (int n = 0; n < cuflash_num_stages(); ++n) {
    EXPECT_STREQ(cuflash_stage_name(n), stages()[n]->name);
  }
  EXPECT_EQ(cuflash_stage_name(-1), nullptr);
  EXPECT_EQ(cuflash_stage_name(cuflash_num_stages()), nullptr);
}

TEST_F(CApi, SupportWorkspaceAndChoiceAreTheStages) {
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    for (const Stage* stage : stages()) {
      const Support support = supports(*stage, pass, e->problem, current_device());
      EXPECT_EQ(cuflash_check_support(int(pass), &problem, stage->name), int(support.error));
      EXPECT_EQ(cuflash_last_error_message(), support.reason);
      EXPECT_EQ(cuflash_workspace_bytes(int(pass), &problem, stage->name),
                support ? stage->facts(pass).workspace_bytes(e->problem) : 0);
      EXPECT_EQ(cuflash_last_error_message(), support.reason);
      EXPECT_STREQ(cuflash_chosen_stage(int(pass), &problem, stage->name),
                   support ? stage->name : nullptr);
    }
    const Stage* const fastest = choose_stage(pass, e->problem, current_device());
    EXPECT_STREQ(cuflash_chosen_stage(int(pass), &problem, nullptr), fastest->name);
    const Environment variable("CUFLASH_STAGE", "01");
    EXPECT_STREQ(cuflash_chosen_stage(int(pass), &problem, nullptr), "01_naive");
  }
  EXPECT_EQ(cuflash_chosen_stage(CUFLASH_FORWARD, &problem, "99_magic"), nullptr);
  expect_refused(cuflash_check_support(2, &problem, nullptr), CUFLASH_UNSUPPORTED_BY_STAGE,
                 "pass is 2, neither forward (0) nor backward (1)");
  problem.seq_kv = 0;
  expect_refused(cuflash_check_support(CUFLASH_FORWARD, &problem, nullptr),
                 CUFLASH_INVALID_DIMENSION, "seq_kv is 0");
}

// ---- Errors ------------------------------------------------------------------------------------

// True if FlashAttentionError has this error. There is no default case, so -Wswitch reports one
// that is missing.
constexpr bool in_cpp_too(cuflash_error error) {
  using Error = FlashAttentionError;
  switch (error) {
    case cuflash_error(Error::SUCCESS):
    case cuflash_error(Error::INVALID_DIMENSION):
    case cuflash_error(Error::DIMENSION_MISMATCH):
    case cuflash_error(Error::NULL_POINTER):
    case cuflash_error(Error::CUDA_ERROR):
    case cuflash_error(Error::OUT_OF_MEMORY):
    case cuflash_error(Error::UNSUPPORTED_HEAD_DIM):
    case cuflash_error(Error::UNSUPPORTED_DTYPE):
    case cuflash_error(Error::INVALID_SCALE):
    case cuflash_error(Error::MISALIGNED):
    case cuflash_error(Error::SIZE_OVERFLOW):
    case cuflash_error(Error::UNSUPPORTED_DEVICE):
    case cuflash_error(Error::UNSUPPORTED_BY_STAGE):
    case cuflash_error(Error::UNKNOWN_STAGE):
      return true;
  }
  return false;
}
static_assert(in_cpp_too(CUFLASH_UNKNOWN_STAGE) && !in_cpp_too(cuflash_error(99)));

// The enumerators of cuflash_error in c_api.h and what their documentation says.
std::map<int, std::string> documented_errors() {
  std::ifstream file(CUFLASH_SOURCE_DIR "/common/include/cuflash/c_api.h");
  const std::regex enumerator(R"( +CUFLASH_\w+ = (\d+),? +///< (.*))"), more(R"( +///< (.*))");
  std::map<int, std::string> errors;
  std::string line, *sentence = nullptr;
  while (std::getline(file, line) && line != "CUFLASH_ENUM(cuflash_error){") {
  }
  for (std::smatch found; std::getline(file, line) && line != "};";) {
    if (std::regex_match(line, found, enumerator)) {
      sentence = &(errors[std::stoi(found[1])] = found[2]);
    } else if (sentence != nullptr && std::regex_match(line, found, more)) {
      *sentence += " " + found[1].str();
    } else {
      ADD_FAILURE() << "no enumerator: " << line;
    }
  }
  return errors;
}

TEST(CApiErrors, HaveTheirDocumentationsWords) {
  const std::map<int, std::string> errors = documented_errors();
  EXPECT_EQ(errors.size(), std::size_t{CUFLASH_UNKNOWN_STAGE} + 1);
  for (const auto& [code, sentence] : errors) {
    EXPECT_EQ(cuflash_error_string(code), sentence) << code;
  }
  for (const int none : {-1, 99, std::numeric_limits<int>::min()}) {
    EXPECT_STREQ(cuflash_error_string(none), "unknown error");
  }
}

// ---- The library itself -------------------------------------------------------------------------

// The current device has the CPU simulator's name, or a GPU's.
TEST(CApiBackend, IsWhereTheKernelsRun) {
  const bool simt = current_device().name == "CuFlash CPU simulator";
  EXPECT_STREQ(cuflash_backend(), simt ? "simt" : "cuda");
}

TEST(CApiVersion, IsTheHeaders) { EXPECT_EQ(cuflash_version(), CUFLASH_VERSION); }

}  // namespace
}  // namespace cuflash
