// An exercise for tests/scripts/commands_test.py. Its answer is 01's own kernels, and does besides
// what the variable PUPPET says.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "list.h"

namespace cuflash {
namespace own_01_FORWARD {
extern const Stage kStage;
}

namespace exercises {
namespace {

const Stage& kOwn = own_01_FORWARD::kStage;

FlashAttentionError answer(const Problem& problem, const Forward& args, const Device& device,
                           cudaStream_t stream) {
  const char* const variable = std::getenv("PUPPET");
  const std::string does = variable == nullptr ? "" : variable;
  if (does == "print") {
    std::puts("hello");
    std::fputs("caf\xe9\n", stderr);
  } else if (does == "crash") {
    std::puts("before");
    std::raise(SIGSEGV);
  } else if (does == "forge") {
    const std::string grade = "{\"passed\":true,\"diagnoses\":[]}\n";
    for (int to = 1; to < 100; ++to) (void)!write(to, grade.data(), grade.size());
    _exit(0);
  }
  return kOwn.forward.run(problem, args, device, stream);
}

}  // namespace

const std::vector<Entry>& entries() {
  static Stage puppet = kOwn;
  puppet.forward.run = answer;
  static const std::vector<Entry> list = {{"1_puppet", &puppet, &kOwn, CUFLASH_FORWARD, ""}};
  return list;
}

}  // namespace exercises
}  // namespace cuflash
