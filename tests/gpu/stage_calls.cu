// Calls of stages for Nsight Compute: scripts/maintainer/chip_counts.py runs this program once for
// many problems.
//   stage_calls TIMES STAGE PASS PROBLEM [STAGE PASS PROBLEM]...
// Makes each call TIMES times, with inputs N(0, 1). An empty kernel, next_call, is launched before
// each problem's calls, so that the launches can be told apart.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "cuflash/stage.h"
#include "cuflash/workload.h"
#include "device/host/launch.h"
#include "harness/owners.h"
#include "harness/stage_call.h"
#include "measure.h"

__global__ void next_call() {}

namespace cuflash {
namespace {

Pass pass_called(const std::string& name) {
  for (const Pass pass : {CUFLASH_FORWARD, CUFLASH_BACKWARD}) {
    if (name == pass_name(pass)) return pass;
  }
  throw std::runtime_error("There is no pass \"" + name + "\".");
}

void make_calls(int times, const std::string& stage_name, const std::string& name,
                const std::string& problem_name) {
  const Stage* const stage = find_stage(stage_name);
  if (stage == nullptr) throw std::runtime_error("There is no stage \"" + stage_name + "\".");
  const Pass pass = pass_called(name);
  Problem problem;
  if (!parse_problem(problem_name, problem)) {
    throw std::runtime_error("\"" + problem_name + "\" is not a problem.");
  }
  if (const Support can = supports(*stage, pass, problem, current_device()); !can) {
    throw std::runtime_error(can.reason);
  }
  harness::CallOptions options;
  options.guards = false;
  harness::StageCall call(*stage, pass, problem, bench::unchecked_inputs(pass, {problem, {}, {}}),
                          options);
  const harness::Stream stream;
  if (launch(next_call, {1, 1, {}, stream.get()}) != FlashAttentionError::SUCCESS) {
    throw std::runtime_error("The launch of next_call failed.");
  }
  for (int n = 0; n < times; ++n) call.queue(stream);
  stream.synchronize();
}

}  // namespace
}  // namespace cuflash

int main(int argc, char** argv) {
  try {
    if (argc < 5 || argc % 3 != 2) {
      throw std::runtime_error("usage: stage_calls TIMES STAGE PASS PROBLEM [...]");
    }
    for (int n = 2; n < argc; n += 3) {
      cuflash::make_calls(std::atoi(argv[1]), argv[n], argv[n + 1], argv[n + 2]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuflash: %s\n", error.what());
    return 1;
  }
  return 0;
}
