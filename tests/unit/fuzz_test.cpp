// Random calls of the C interface, most of them wrong in one to three ways. Each must return what
// the documentation says, and none may crash, access memory outside its buffers, or write when it
// is refused.
//
// Each call follows from a number. A failure states the number: CUFLASH_FUZZ_SEED=<that number>
// makes the failing call the first one.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>

#include "fuzz_calls.h"
#include "fuzz_make.h"
#include "support/api_example.h"
#include "support/memory_limit.h"

namespace cuflash::fuzz {
namespace {

constexpr int kCalls =
    simt::kSimulated ? 16000 : 5000;  // device memory takes longer to get and to read

// Kernels take most of the time, so one in this many of the calls that would run a kernel does so.
// The others are made wrong until they are refused.
constexpr int kOneRunsIn = 8;

std::uint64_t first_seed() {
  const char* text = std::getenv("CUFLASH_FUZZ_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20000000;
}

// ---- Words for a failure, and for a crash ------------------------------------------------------

const char* entry_name(Entry entry) {
  switch (entry) {
    case Entry::kSimple:
      return "simple form";
    case Entry::kFull:
      return "full form";
    case Entry::kCheckSupport:
      return "cuflash_check_support";
    case Entry::kChosenStage:
      return "cuflash_chosen_stage";
    case Entry::kWorkspaceBytes:
      return "cuflash_workspace_bytes";
  }
  return "";
}

std::string words(const std::optional<std::string>& name) {
  return name ? '"' + name->substr(0, 40) + '"' : "null";
}

std::string describe(std::uint64_t seed, const FuzzCall& call) {
  std::ostringstream text;
  const cuflash_problem& p = call.problem;
  text << "CUFLASH_FUZZ_SEED=" << seed << ": " << entry_name(call.entry) << ", pass " << call.pass
       << ", stage " << words(call.stage) << ", CUFLASH_STAGE " << words(call.variable)
       << "\n  problem" << (call.null_problem ? " (null)" : "") << ": size " << p.size << ", batch "
       << p.batch << ", heads " << p.heads_q << " x " << p.heads_kv << ", seq " << p.seq_q << " x "
       << p.seq_kv << ", head_dim " << p.head_dim << ", dtype " << p.dtype << ", scale "
       << p.softmax_scale << ", causal " << p.causal << ", window " << p.window_left << " and "
       << p.window_right << "\n  args" << (call.null_args ? " (null)" : "") << ": size "
       << call.args.size << ", lse " << call.args.lse << ", workspace " << call.args.workspace
       << " of " << call.args.workspace_bytes << " bytes";
  for (const Operand& operand : operands(call.pass)) {
    const cuflash_tensor& t = call.args.*operand.tensor;
    text << "\n  " << operand.name << ": data " << t.data << ", strides " << t.batch_stride << ", "
         << t.head_stride << ", " << t.row_stride;
  }
  if (call.earlier_error) text << "\n  after an error";
  if (call.no_memory) text << "\n  without device memory";
  return text.str() + "\n";
}

// If a call faults, prints which one it was; the fault then ends the program as usual.
class CrashNote {
 public:
  CrashNote() {
    struct sigaction action {};
    action.sa_handler = say;
    action.sa_flags = SA_ONSTACK | SA_RESETHAND;
    const stack_t stack = {stack_.data(), 0, stack_.size()};
    sigaltstack(&stack, &stack_before_);
    sigaction(SIGSEGV, &action, &action_before_);
  }
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;
  ~CrashNote() {
    sigaction(SIGSEGV, &action_before_, nullptr);
    sigaltstack(&stack_before_, nullptr);
  }
  void set(const std::string& text) {
    length_ = std::min(text.size(), sizeof text_);
    std::memcpy(text_, text.data(), length_);
  }

 private:
  static void say(int) {
    if (write(STDERR_FILENO, text_, length_) < 0) return;
  }
  static inline char text_[4096];
  static inline std::size_t length_ = 0;
  std::vector<char> stack_ = std::vector<char>(1 << 16);
  stack_t stack_before_{};
  struct sigaction action_before_ {};
};

// ---- One call ----------------------------------------------------------------------------------

Answer make_here(const FuzzCall& call, const Given& given) {
  if (call.earlier_error) (void)cudaSetDevice(-1);
  EXPECT_TRUE(simt::kSimulated || !call.no_memory)
      << "only the CPU simulator can be without memory";
  std::optional<MemoryLimit> no_memory;
  if (call.no_memory) no_memory.emplace(0);
  const Answer answer = make(call, given);
  (void)cudaGetLastError();  // The next call must not see the error of this one.
  return answer;
}

// ---- Its effects -------------------------------------------------------------------------------

// Every element of an output must have been written, and no byte between them.
void expect_written(const FuzzCall& call, const Operand& operand, const Bytes& now) {
  const cuflash_problem& p = call.problem;
  const cuflash_tensor& t = call.args.*operand.tensor;
  const std::size_t element = std::size_t(element_size(p));
  const int heads = operand.of_queries ? p.heads_q : p.heads_kv;
  const int seq = operand.of_queries ? p.seq_q : p.seq_kv;
  std::vector<bool> inside(now.size());
  for (std::int64_t row = 0; row < std::int64_t{p.batch} * heads * seq; ++row) {
    const std::int64_t first = row / seq / heads * t.batch_stride +
                               row / seq % heads * t.head_stride + row % seq * t.row_stride;
    for (std::size_t n = 0; n < std::size_t(p.head_dim) * element; ++n) {
      const std::size_t at = std::size_t(first) * element + n;
      ASSERT_FALSE(inside[at]) << operand.name << " overlaps itself at byte " << at;
      inside[at] = true;
    }
  }
  const Bytes poison = unwritten(now.size());
  for (std::size_t n = 0; n < now.size(); n += element) {
    const bool written = !std::equal(&now[n], &now[n] + element, &poison[n]);
    ASSERT_EQ(written, inside[n]) << operand.name << ", byte " << n << " of " << now.size();
  }
}

void expect_lse_written(const FuzzCall& call, const Bytes& now) {
  const cuflash_problem& p = call.problem;
  const std::size_t rows = std::size_t(p.batch) * p.heads_q * p.seq_q;
  const Bytes poison = unwritten(now.size());
  for (std::size_t n = 0; n < now.size(); n += sizeof(float)) {
    const bool written = !std::equal(&now[n], &now[n] + sizeof(float), &poison[n]);
    ASSERT_EQ(written, n / sizeof(float) < rows) << "LSE, byte " << n << " of " << now.size();
  }
}

// Checks a buffer after a successful call, according to its operand.
void expect_after_success(const FuzzCall& call, const Buffer& buffer) {
  const Bytes now = buffer.memory.now();
  if (buffer.name == "workspace") return;
  if (buffer.name == "LSE" && call.pass == CUFLASH_FORWARD && call.args.lse != nullptr) {
    expect_lse_written(call, now);
    return;
  }
  for (const Operand& operand : operands(call.pass)) {
    const bool output = operand.role != Role::kInput;
    if (buffer.name == operand.name && output && (call.args.*operand.tensor).data != nullptr) {
      expect_written(call, operand, now);
      return;
    }
  }
  EXPECT_TRUE(now == buffer.memory.before()) << buffer.name << " was written";
}

void expect_left_behind(const FuzzCall& call, bool success, const Memory& memory) {
  for (const Buffer& buffer : memory.buffers()) {
    EXPECT_TRUE(buffer.memory.guards_intact()) << "a write beside " << buffer.name;
    if (success && !is_question(call.entry)) {
      expect_after_success(call, buffer);
    } else {
      EXPECT_TRUE(buffer.memory.now() == buffer.memory.before())
          << buffer.name << " was written by a refused call";
    }
  }
}

// ---- The fuzzer --------------------------------------------------------------------------------

class Fuzz : public Api {
 protected:
  // Makes the call of this number, checks it and counts its answer.
  void run(std::uint64_t seed) {
    Random random(seed);
    FuzzCall call = random_call(random);
    Memory memory(call, random);
    set_variable(call);
    if (random.one_in(2)) memory.add_workspace(call, workspace_of(call), random);
    const int changes = random.between(0, 3);
    const bool may_run = is_question(call.entry) || random.one_in(kOneRunsIn);
    const auto must_change = [&](int n) {
      return n < changes || (!may_run && n < 30 && expected_of(call) == CUFLASH_SUCCESS);
    };
    for (int n = 0; must_change(n); ++n) make_wrong(call, random);
    int expected = expected_of(call);
    if (expected == CUFLASH_SUCCESS && goes_too_far(call, memory, workspace_of(call))) {
      keep_from_running(call, random);
      expected = expected_of(call);
    }
    const std::string text = describe(seed, call);
    SCOPED_TRACE(text);
    note_.set(text);
    const Given given(call, random.flush());
    set_variable(call);
    const std::uint64_t before = launches();
    const Answer answer = make_here(call, given);
    expect(call, expected, answer, launches() - before);
    EXPECT_TRUE(given.unchanged()) << "a struct or the stage's name was written";
    expect_left_behind(call, expected == CUFLASH_SUCCESS, memory);
    ++count_[answer.code];
  }

  void expect(const FuzzCall& call, int expected, const Answer& answer,
              std::uint64_t launched) const {
    const std::string message = cuflash_last_error_message();
    EXPECT_EQ(answer.code, expected) << message;
    EXPECT_EQ(answer.refused, expected != CUFLASH_SUCCESS) << message;
    EXPECT_EQ(message.empty(), expected == CUFLASH_SUCCESS) << message;
    const bool runs = expected == CUFLASH_SUCCESS && !is_question(call.entry) && has_work(call);
    EXPECT_TRUE(runs || launched == 0) << launched << " kernels were launched";
    EXPECT_TRUE(!answer.refused || answer.workspace == 0) << answer.workspace << " bytes";
    if (call.entry == Entry::kChosenStage && !answer.refused) {
      expect_fitting(call, answer.stage);
    }
    EXPECT_TRUE(!simt::kSimulated || !runs || launched > 0) << "nothing was launched";
    for (const simt::Finding& finding : simt::take_findings()) ADD_FAILURE() << finding.message();
  }

  // Checks that the stage that would run can run the call, is the one that was asked for, and is
  // given by its full name.
  static void expect_fitting(const FuzzCall& call, const std::string& chosen) {
    const Stage* stage = stage_called(chosen);
    ASSERT_NE(stage, nullptr) << chosen;
    EXPECT_EQ(chosen, stage->name);
    EXPECT_EQ(stage_fault(*stage, call.pass, as_read(call.problem), {}), 0) << chosen;
    if (const auto name = wanted_stage(call)) {
      EXPECT_EQ(stage, stage_called(*name)) << chosen;
    }
  }

  // The workspace that a call needs, according to the library; a refused call needs none.
  static std::size_t workspace_of(const FuzzCall& call) {
    const bool known = call.pass == CUFLASH_FORWARD || call.pass == CUFLASH_BACKWARD;
    cuflash_problem p = as_read(call.problem);
    if (!known || problem_faults(p) != Faults{}) return 0;
    p.size = sizeof p;
    return cuflash_workspace_bytes(call.pass, &p, call.stage ? call.stage->c_str() : nullptr);
  }

  int expected_of(const FuzzCall& call) {
    set_variable(call);
    return expected_code(call, workspace_of(call));
  }

  static void set_variable(const FuzzCall& call) {
    if (call.variable) {
      setenv("CUFLASH_STAGE", call.variable->c_str(), 1);
    } else {
      unsetenv("CUFLASH_STAGE");
    }
  }

  CrashNote note_;
  std::map<int, int> count_;
};

TEST_F(Fuzz, EveryCallAnswersAsDocumented) {
  const std::uint64_t seed = first_seed();
  for (std::uint64_t n = 0; n < kCalls && !HasFailure(); ++n) run(seed + n);
  if (HasFailure()) return;

  for (const auto& [code, calls] : count_) {
    std::cout << calls << " calls: " << code << ", " << cuflash_error_string(code) << "\n";
  }
  // Every code that needs no special device must have occurred.
  for (int code = CUFLASH_SUCCESS; code <= CUFLASH_UNKNOWN_STAGE; ++code) {
    if (code == CUFLASH_UNSUPPORTED_DEVICE) continue;
    if (!simt::kSimulated && code == CUFLASH_OUT_OF_MEMORY) continue;
    EXPECT_GE(count_[code], 10) << cuflash_error_string(code);
  }
}

TEST_F(Fuzz, EveryIntegerHasASentenceAndAtMostAStage) {
  Random random(first_seed());
  for (int n = 0; n < 100000; ++n) {
    const int value =
        random.one_in(2) ? int(std::uint32_t(random.bits())) : random.between(-20, 20);
    const char* sentence = cuflash_error_string(value);
    ASSERT_NE(sentence, nullptr) << value;
    ASSERT_NE(*sentence, '\0') << value;
    const char* name = cuflash_stage_name(value);
    const bool exists = value >= 0 && value < cuflash_num_stages();
    ASSERT_EQ(name != nullptr, exists) << value;
    if (exists) {
      ASSERT_STREQ(name, stages()[std::size_t(value)]->name);
    }
  }
}

}  // namespace
}  // namespace cuflash::fuzz
